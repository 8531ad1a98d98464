//! Where bytes come from: a file, or memory.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::Error;
use crate::error::{Problem, shorten};

/// A file or memory, of a length that is known, read in pieces.
#[derive(Debug)]
pub(crate) struct Source {
    name: String,
    len: u64,
    data: Data,
}

enum Data {
    /// One position for all readers, so one reader at a time.
    File(Mutex<File>),
    Memory(Vec<u8>),
}

impl std::fmt::Debug for Data {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, Self::File(_)) { "File" } else { "Memory" })
    }
}

impl Source {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let of_file = |source| Error::Io { file: shorten(&name), source };
        // Before it is opened: a pipe would wait for a writer.
        let kind = fs::metadata(path).map_err(of_file)?;
        if !kind.is_file() {
            let actual = if kind.is_dir() { "a folder" } else { "a device or a pipe" };
            return Err(Problem::new("a file", actual).of_file(&name));
        }
        let file = File::open(path).map_err(of_file)?;
        let len = file.metadata().map_err(of_file)?.len();
        Ok(Self { name, len, data: Data::File(Mutex::new(file)) })
    }

    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Self {
        let len = bytes.len() as u64;
        Self { name: "bytes in memory".to_owned(), len, data: Data::Memory(bytes) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// `len` bytes from `start` on. Memory is taken only for what the source has.
    pub(crate) fn read(&self, start: u64, len: usize) -> Result<Vec<u8>, Error> {
        let cut = || Problem::new("the length it had when it was opened", "a shorter file");
        if start.checked_add(len as u64).is_none_or(|end| end > self.len) {
            let actual = format_args!("bytes {start} to {start} + {len} asked for");
            return Err(
                Problem::new(format_args!("{} bytes", self.len), actual).of_file(&self.name)
            );
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|error| self.io(error.into()))?;
        match &self.data {
            Data::File(file) => {
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.seek(SeekFrom::Start(start)).map_err(|error| self.io(error))?;
                let mut piece = (&mut *file).take(len as u64);
                piece.read_to_end(&mut bytes).map_err(|error| self.io(error))?;
            }
            // In range: the end is at most the length of the memory.
            Data::Memory(memory) => bytes.extend(&memory[start as usize..start as usize + len]),
        }
        if bytes.len() < len { Err(cut().of_file(&self.name)) } else { Ok(bytes) }
    }

    /// All of it as a stream with a position of its own.
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader { source: self, at: 0 }
    }

    pub(crate) fn io(&self, source: io::Error) -> Error {
        Error::Io { file: shorten(&self.name), source }
    }

    pub(crate) fn refuse(&self, problem: Problem) -> Error {
        problem.of_file(&self.name)
    }

    pub(crate) fn refuse_tensor(&self, tensor: &str, problem: Problem) -> Error {
        problem.of_tensor(&self.name, tensor)
    }
}

/// A source as a stream.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    source: &'a Source,
    at: u64,
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = match &self.source.data {
            Data::File(file) => {
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.seek(SeekFrom::Start(self.at))?;
                file.read(buffer)?
            }
            Data::Memory(memory) => {
                let start = usize::try_from(self.at).unwrap_or(usize::MAX).min(memory.len());
                (&memory[start..]).read(buffer)?
            }
        };
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for Reader<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.source.len.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
