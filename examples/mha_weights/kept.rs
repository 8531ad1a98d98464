//! Files that a conversion must not replace.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::args::Convert;
use crate::words::plain;

/// Refuses an `OUT` that is there already, without `--force`, or that is part of what is read, with it
/// too.
pub(crate) fn check(args: &Convert) -> Result<(), String> {
    let out = &args.out;
    let refuse = |why: &str| Err(plain(format_args!("{}: {why}", out.display())));
    let there = match fs::symlink_metadata(out) {
        Ok(there) => there,
        // Whatever else is wrong with it is found when it is written.
        Err(_) => return Ok(()),
    };
    if there.is_dir() {
        return refuse("is a folder, expected the name of a file to write");
    }
    if is_read(args) {
        return refuse("is part of what is converted, or may be, and is not overwritten");
    }
    if !args.force {
        return refuse("exists already, --force replaces it");
    }
    Ok(())
}

/// Whether `OUT`, which is there, is a file that is read.
fn is_read(args: &Convert) -> bool {
    let (file, out) = (&args.weights.file, &args.out);
    // By its own name too, where that is a link.
    let outs: Vec<PathBuf> = [out.canonicalize(), named(out)].into_iter().flatten().collect();
    let is_out = |path: &Path| {
        let names = [path.canonicalize(), named(path)].into_iter().flatten();
        names.into_iter().any(|name| outs.contains(&name))
    };
    let config = args.weights.config.as_deref();
    if is_out(file) || config.is_some_and(is_out) {
        return true;
    }
    let folder = if file.is_dir() { Some(&**file) } else { file.parent() };
    let folder =
        folder.map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    // A folder, or an index, may read any file of the folder.
    let is_whole_folder = file.is_dir() || file.extension().is_some_and(|kind| kind == "json");
    let beside = if is_whole_folder {
        let entries = folder.and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten();
        entries.flatten().map(|entry| entry.path()).collect()
    } else {
        let names = ["config.json", "params.json"].into_iter();
        names.filter_map(|name| Some(folder?.join(name))).collect::<Vec<_>>()
    };
    beside.iter().any(|path| is_out(path))
}

/// The file's own name in its true folder, whatever it may be a link to.
fn named(path: &Path) -> io::Result<PathBuf> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(folder.unwrap_or(Path::new(".")).canonicalize()?.join(name))
}
