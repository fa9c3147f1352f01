async () => {
    // All the way up, so that everything is read; then the frames of a scroll, in order of their length.
    const log = document.querySelector('.log');
    const frame = () => new Promise(requestAnimationFrame);
    for (let at = 0; at < 3000 && !log.innerText.includes('Message 0:'); at += 1) {
        log.scrollTop = 0;
        await frame();
    }
    const gaps = [];
    let last = performance.now();
    for (let at = 0; at < 120; at += 1) {
        log.scrollTop += 500;
        await frame();
        const now = performance.now();
        gaps.push(now - last);
        last = now;
    }
    return gaps.sort((one, two) => one - two);
}
