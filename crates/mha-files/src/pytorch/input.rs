//! The bytes of a pickle, piece by piece.

use crate::error::Problem;

/// What is left to read.
#[derive(Debug)]
pub(super) struct Input<'p> {
    bytes: &'p [u8],
    at: usize,
}

impl<'p> Input<'p> {
    pub(super) fn new(bytes: &'p [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// How many bytes have been read.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'p [u8], Problem> {
        let rest = &self.bytes[self.at..];
        let Some(piece) = rest.get(..count) else {
            return Err(Problem::new(format_args!("{count} more bytes"), rest.len()));
        };
        self.at += count;
        Ok(piece)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Problem> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(super) fn u16(&mut self) -> Result<u16, Problem> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn i32(&mut self) -> Result<i32, Problem> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, Problem> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A length of 1, 4 or 8 bytes, and as many bytes.
    pub(super) fn counted(&mut self, width: usize) -> Result<&'p [u8], Problem> {
        let mut length = [0; 8];
        length[..width].copy_from_slice(self.take(width)?);
        let length = u64::from_le_bytes(length);
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    /// Up to the end of the line.
    pub(super) fn line(&mut self) -> Result<&'p str, Problem> {
        let rest = &self.bytes[self.at..];
        let Some(end) = rest.iter().position(|&byte| byte == b'\n') else {
            return Err(Problem::new("a line", "no end of it"));
        };
        let line = self.take(end)?;
        self.take(1)?;
        str::from_utf8(line).map_err(|_| Problem::new("UTF-8", line.escape_ascii()))
    }
}
