//! What Linux tells in /proc.

use std::{fs, io};

/// Sets the peak of this process back to what is resident now, and returns it in MB.
pub(super) fn reset_peak() -> io::Result<f64> {
    fs::write("/proc/self/clear_refs", "5")?;
    peak_mb()
}

/// The peak of this process in MB.
pub(super) fn peak_mb() -> io::Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    field_mb(&status, "VmHWM:").ok_or_else(|| io::Error::other("/proc/self/status has no VmHWM"))
}

/// Memory that processes can still have, in MB, where the system tells.
pub(super) fn available_mb() -> Option<f64> {
    field_mb(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")
}

/// A field that is there in KiB, in MB.
fn field_mb(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_read_in_mb() {
        let status = "Name:\tx\nVmPeak:\t 9 kB\nVmHWM:\t  250000 kB\nVmRSS:\t 1 kB\n";
        assert_eq!(field_mb(status, "VmHWM:"), Some(256.0));
        assert_eq!(field_mb("Name:\tx\n", "VmHWM:"), None);
    }
}
