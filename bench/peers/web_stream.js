async ([count, rate]) => {
    // A transcript fed as the socket would feed it: an item that grows.
    const version = document.querySelector('script[type=module]').src.match(/web.(\w+)/)[1];
    const base = new URL(`web/${version}/`, location.href).href;
    const [{Transcript}, {itemView, estimateHeight}, {VirtualList}, {oncePerFrame}] = await Promise.all(
        ['model/transcript.js', 'view/items.js', 'view/virtual_list.js', 'dom.js'].map(name => import(base + name)));
    const words = 'The reader **splits** at newlines and `drops` the last piece, see the docs. '.split(' ');
    const place = document.querySelector('.page');
    place.replaceChildren();
    const column = document.createElement('div');
    place.append(column);
    const transcript = new Transcript();
    const session = {transcript, cwd: '/', canWrite: true};
    const list = new VirtualList(place, column, {render: item => itemView(item, session), estimate: estimateHeight});
    transcript.onchange = oncePerFrame(() => list.setItems(transcript.items), 100);
    let longest = 0, last = performance.now(), running = true;
    const tick = now => { longest = Math.max(longest, now - last); last = now; if (running) requestAnimationFrame(tick); };
    requestAnimationFrame(tick);
    const start = performance.now();
    for (let sent = 0; sent < count; sent += 1) {
        const text = sent % 60 === 59 ? '\n\n' : words[sent % words.length] + ' more ';
        transcript.apply({seq: sent + 1, kind: 'update', turn: 't', time: '2026-01-01T00:00:00Z', actor: 'agent',
            body: {sessionUpdate: 'agent_message_chunk', content: {type: 'text', text}}});
        const wait = start + (sent + 1) * 1000 / rate - performance.now();
        if (wait > 0) await new Promise(resolve => setTimeout(resolve, wait));
    }
    running = false;
    return {seconds: (performance.now() - start) / 1000, longest};
}
