//! The texts both ends expect: a lost, doubled or reordered one fails the measurement.

pub const CHUNK_BYTES: usize = 40;
pub const ANSWER: &str = "the same few words every time\n";

const HEAD: usize = "chunk 00000 ".len();
const TAIL: &str = "all work and no play makes a dull agent all work and no play makes a dull agent ";

pub fn chunk(number: usize, size: usize) -> String {
    format!("chunk {number:05} {}", &TAIL[..size - HEAD])
}

fn block() -> String {
    (0..1024)
        .map(|number| format!("line {number:06} of a long document, written once and sent in one piece\n"))
        .collect()
}

/// A text of `size` characters, built without other copies of that size.
pub fn document(size: usize) -> String {
    let block = block();
    let mut text = String::with_capacity(size);
    text.push_str(&format!("document of {size} characters\n"));
    while text.len() < size {
        text.push_str(&block[..block.len().min(size - text.len())]);
    }
    text
}

pub fn is_document(text: &str, size: usize) -> bool {
    let (block, head) = (block(), format!("document of {size} characters\n"));
    text.len() == size
        && text.starts_with(&head)
        && text.as_bytes()[head.len()..].chunks(block.len()).all(|part| block.as_bytes().starts_with(part))
}

/// Takes the chunks of one turn and insists on their text, order and count.
#[derive(Default)]
pub struct Reader {
    count: usize,
}

impl Reader {
    pub fn take(&mut self, text: &str) -> Result<(), crate::Fault> {
        if text != chunk(self.count, CHUNK_BYTES) {
            return Err(format!("chunk {} is another one: {text:?}", self.count).into());
        }
        self.count += 1;
        Ok(())
    }

    pub fn expect(&self, count: usize) -> Result<(), crate::Fault> {
        if self.count != count {
            return Err(format!("got {} chunks, expected {count}", self.count).into());
        }
        Ok(())
    }
}
