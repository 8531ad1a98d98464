//! PyTorch's checkpoints: a zip archive of a pickle and of the storages that it names.
//!
//! The layout is that of `torch.save`: <https://docs.pytorch.org/docs/stable/notes/serialization.html>.

mod archive;
mod input;
mod pickle;
mod rebuild;
mod value;
mod view;
mod walk;

use archive::Archive;

use crate::Error;
use crate::error::Problem;
use crate::source::Source;
use crate::store::Contents;

/// The longest pickle that is read, in bytes. A tensor takes about a hundred.
const LONGEST: u64 = 64 << 20;

/// What the archive has.
pub(crate) fn open(source: &Source) -> Result<Contents, Error> {
    let archive = Archive::open(source)?;
    archive.expect_little_endian(source)?;
    let pickle = archive.record("data.pkl").map_err(|problem| source.refuse(problem))?;
    if pickle.len > LONGEST {
        let expected = format_args!("a data.pkl of at most {LONGEST} bytes");
        return Err(source.refuse(Problem::new(expected, pickle.len)));
    }
    let bytes = source.read(pickle.start, pickle.len as usize)?;
    let pickle = pickle::parse(&bytes).map_err(|problem| source.refuse(problem))?;
    walk::walk(&pickle, &archive, source)
}

/// How PyTorch's files looked before, if the first bytes look so.
pub(crate) fn old(start: &[u8]) -> Option<&'static str> {
    // The number 0x1950a86a20f9469cfc6c, with which the older format begins, as a pickle spells it.
    const MAGIC: &[u8] = b"\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
    let first = &start[..start.len().min(40)];
    if first.windows(MAGIC.len()).any(|bytes| bytes == MAGIC) {
        Some("PyTorch's format from before 1.6")
    } else if start.get(257..262) == Some(b"ustar") {
        Some("a tar archive (PyTorch's first format)")
    } else if matches!(start, [0x80, 1..=5, ..]) {
        Some("a pickle that is not torch.save's")
    } else {
        None
    }
}
