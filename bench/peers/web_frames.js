() => {
    // Notes the longest time between two frames, from now on.
    let last = performance.now();
    window.longestFrame = 0;
    const tick = now => {
        window.longestFrame = Math.max(window.longestFrame, now - last);
        last = now;
        requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
}
