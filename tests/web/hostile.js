async ([texts, version]) => {
    // Shows hostile texts in every kind of item and returns what became more than text.
    const {itemView} = await import(`${location.origin}/web/${version}/view/items.js`);
    const {visible} = await import(`${location.origin}/web/${version}/text/visible.js`);
    const session = {transcript: {terminals: new Map()}, cwd: '/', canWrite: true, fetchTerminal: async () => ''};
    const place = document.querySelector('.page > .col');
    const problems = [];
    for (const [at, text] of texts.entries()) {
        const call = {toolCallId: 't', title: text, kind: 'execute', status: 'completed', name: text, locations: [{path: text}],
            rawInput: {command: text}, content: [{type: 'content', content: {type: 'text', text}}, {type: 'diff', path: text, oldText: text, newText: text + '!'}]};
        const items = [
            {key: 'a', type: 'agent', version: 0, parts: [{type: 'text', text}]},
            {key: 'u', type: 'user', version: 0, user: text, parts: [{type: 'text', text}, {type: 'resource_link', uri: text, name: text}]},
            {key: 't', type: 'tool', version: 0, id: 't', call, opened: true},
            {key: 'n', type: 'note', version: 0, tone: 'bad', name: 'agentExited', text, stderr: text},
        ];
        const start = performance.now();
        for (const item of items) {
            const view = itemView(item, session);
            place.append(view.element);
            for (const node of view.element.querySelectorAll('*')) {
                const name = node.tagName.toLowerCase();
                if (['script', 'iframe', 'object', 'embed', 'form', 'base', 'meta', 'link', 'style', 'template', 'input'].includes(name)) problems.push(`${at}: <${name}>`);
                for (const attribute of node.getAttributeNames()) if (attribute.startsWith('on') || attribute === 'style' || attribute === 'srcdoc') problems.push(`${at}: ${attribute}`);
                if (name === 'a' && !/^(https?:|mailto:|blob:)/.test(node.getAttribute('href'))) problems.push(`${at}: ${node.getAttribute('href')}`);
                if (name === 'img' && !node.src.startsWith('blob:')) problems.push(`${at}: ${node.src}`);
                if (name === 'button' && /^Allow/.test(node.textContent)) problems.push(`${at}: a button`);
            }
            if (/[\u202a-\u202e\u2066-\u2069\u200b\u0000-\u0008\u001b]/.test(view.element.textContent)) problems.push(`${at}: hidden characters`);
            view.element.remove();
        }
        const spent = performance.now() - start;
        if (spent > 4000) problems.push(`${at}: ${Math.round(spent)} ms for ${text.slice(0, 20)}`);
    }
    // Every beginning of a text is shown while it streams.
    const {MarkdownView} = await import(`${location.origin}/web/${version}/text/markdown.js`);
    for (const text of texts.filter(each => each.length < 120)) {
        const element = document.createElement('div');
        const view = new MarkdownView(element);
        for (let end = 1; end <= text.length; end += 1) view.update(text.slice(0, end));
        const whole = document.createElement('div');
        new MarkdownView(whole).update(text);
        if (whole.textContent !== element.textContent) problems.push(`streamed: ${text}`);
    }
    return problems;
}
