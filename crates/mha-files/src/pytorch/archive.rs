//! The records of the zip archive, by name.

use std::collections::HashMap;
use std::io::BufReader;

use zip::read::{ArchiveOffset, Config};
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use crate::Error;
use crate::error::Problem;
use crate::source::Source;

/// Every name in the archive begins with this one's folder.
const PICKLE: &str = "data.pkl";

/// The archive's directory.
pub(super) struct Archive {
    /// By name, without the folder that all share.
    records: HashMap<String, Result<Record, String>>,
}

/// Where the bytes of a record lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    pub(super) start: u64,
    pub(super) len: u64,
}

impl Archive {
    /// Reads the directory, and the short header before each record.
    pub(super) fn open(source: &Source) -> Result<Self, Error> {
        let refuse = |error: ZipError| match error {
            ZipError::Io(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
                source.io(error)
            }
            error => source.refuse(Problem::new("a whole zip archive", error)),
        };
        // The archive is the whole file: nothing before it is searched.
        let config = Config { archive_offset: ArchiveOffset::Known(0) };
        let reader = BufReader::new(source.reader());
        let mut zip = ZipArchive::with_config(config, reader).map_err(refuse)?;
        if zip.has_duplicate_names() {
            let problem = Problem::new("a name for each record", "a name twice");
            return Err(source.refuse(problem));
        }
        let folder = folder(&zip).map_err(|problem| source.refuse(problem))?;
        let mut records = HashMap::new();
        for index in 0..zip.len() {
            let file = zip.by_index_raw(index).map_err(refuse)?;
            let Some(name) = str::from_utf8(file.name_raw()).ok() else { continue };
            let Some(name) = name.strip_prefix(&folder) else { continue };
            let (start, len) = (file.data_start().unwrap_or(u64::MAX), file.size());
            let record = if file.encrypted() {
                Err("an encrypted one".to_owned())
            } else if file.compression() != CompressionMethod::Stored {
                Err(format!("a compressed one ({})", file.compression()))
            } else if file.compressed_size() != len {
                Err(format!("{} bytes for {len}", file.compressed_size()))
            } else if start.checked_add(len).is_none_or(|end| end > source.len()) {
                Err(format!("{len} bytes from {start} on in a file of {}", source.len()))
            } else {
                Ok(Record { start, len })
            };
            records.insert(name.to_owned(), record);
        }
        Ok(Self { records })
    }

    /// A record that is there, as it is: `torch.save` compresses nothing.
    pub(super) fn record(&self, name: &str) -> Result<Record, Problem> {
        match self.records.get(name) {
            Some(Ok(record)) => Ok(*record),
            Some(Err(actual)) => {
                let expected = format_args!("a stored record `{name}`");
                Err(Problem::new(expected, actual))
            }
            None => Err(Problem::new(format_args!("a record `{name}`"), "none of this name")),
        }
    }

    /// PyTorch before 2.1 wrote no `byteorder`, and big-endian machines their own.
    pub(super) fn expect_little_endian(&self, source: &Source) -> Result<(), Error> {
        const NAME: &str = "byteorder";
        if !self.records.contains_key(NAME) {
            return Ok(());
        }
        let record = self.record(NAME).map_err(|problem| source.refuse(problem))?;
        let order = source.read(record.start, record.len.min(16) as usize)?;
        if order == b"little" {
            return Ok(());
        }
        let actual = format_args!("`{}`", order.escape_ascii());
        Err(source.refuse(Problem::new("the byte order `little`", actual)))
    }
}

/// The folder of the pickle, with its slash; there is one.
fn folder<R: std::io::Read + std::io::Seek>(zip: &ZipArchive<R>) -> Result<String, Problem> {
    let mut found = None;
    for name in zip.file_names_raw() {
        let Some(folder) = str::from_utf8(name).ok().and_then(|name| name.strip_suffix(PICKLE))
        else {
            continue;
        };
        if folder.find('/') != folder.len().checked_sub(1) || folder.is_empty() {
            continue;
        }
        if found.replace(folder.to_owned()).is_some() {
            return Err(Problem::new("one folder with a data.pkl", "several"));
        }
    }
    let expected = "a folder with a data.pkl, as torch.save writes";
    found.ok_or_else(|| Problem::new(expected, "a zip archive without"))
}
