//! Files that are there already.

use std::{fs, path::Path};

use crate::support::{convert, empty_dir, fixture, model, names, sentence, succeed};

fn copy_folder(name: &str, to: &Path) {
    for name_of_file in names(&fixture(name)) {
        fs::copy(fixture(name).join(&name_of_file), to.join(&name_of_file)).unwrap();
    }
}

/// Whatever a run does, the files that it reads are as they were.
fn assert_unchanged(name: &str, folder: &Path) {
    for name_of_file in names(&fixture(name)) {
        let [a, b] = [fixture(name), folder.to_path_buf()]
            .map(|folder| fs::read(folder.join(&name_of_file)).unwrap());
        assert!(a == b, "{name_of_file}");
    }
}

#[test]
fn an_existing_file_is_replaced_only_by_force() {
    let out = empty_dir("existing").join("out.safetensors");
    fs::write(&out, "mine").unwrap();
    let said = sentence(convert(&model("llama"), "mha", &out, &[]));
    assert!(said.contains("out.safetensors: exists already, --force"), "{said}");
    assert_eq!(fs::read_to_string(&out).unwrap(), "mine");
    succeed(convert(&model("llama"), "mha", &out, &["--force"]));
    assert!(fs::read(&out).unwrap().len() > 1000);

    let folder = out.with_file_name("folder");
    fs::create_dir(&folder).unwrap();
    let said = sentence(convert(&model("llama"), "mha", &folder, &["--force"]));
    assert!(said.contains("is a folder"), "{said}");
}

#[test]
fn what_is_read_is_never_replaced() {
    let dir = empty_dir("itself");
    copy_folder("llama", &dir);
    fs::create_dir(dir.join("sub")).unwrap();
    let file = dir.join("model.safetensors");
    for out in ["model.safetensors", "config.json", "sub/../model.safetensors", "./config.json"] {
        let said = sentence(convert(&file, "mha", &dir.join(out), &["--force"]));
        assert!(said.contains("is part of what is converted"), "{said}");
    }
    let config = dir.join("config-transformers-4.json");
    let flags = ["--force", "--config", config.to_str().unwrap()];
    sentence(convert(&file, "mha", &config, &flags));
    // From inside its folder, where the name has no folder before it.
    let mut bare =
        convert(Path::new("model.safetensors"), "mha", Path::new("config.json"), &["--force"]);
    bare.current_dir(&dir);
    sentence(bare);
    assert_unchanged("llama", &dir);
    // Another file of the same folder may be.
    fs::write(dir.join("old.safetensors"), "old").unwrap();
    succeed(convert(&file, "mha", &dir.join("old.safetensors"), &["--force"]));
}

#[test]
fn shards_are_never_replaced() {
    let dir = empty_dir("own_shards");
    copy_folder("llama_sharded", &dir);
    let index = dir.join("model.safetensors.index.json");
    for out in names(&fixture("llama_sharded")) {
        sentence(convert(&dir, "mha", &dir.join(&out), &["--force"]));
        sentence(convert(&index, "mha", &dir.join(&out), &["--force"]));
    }
    assert_unchanged("llama_sharded", &dir);
}

#[test]
#[cfg(unix)]
fn a_link_to_what_is_read_is_not_replaced() {
    let dir = empty_dir("links");
    copy_folder("llama", &dir);
    let link = dir.join("link.safetensors");
    std::os::unix::fs::symlink("model.safetensors", &link).unwrap();
    let file = dir.join("model.safetensors");
    sentence(convert(&file, "mha", &link, &["--force"]));
    sentence(convert(&link, "mha", &file, &["--force"]));
    sentence(convert(&link, "mha", &link, &["--force"]));
    assert!(link.is_symlink());
    assert_unchanged("llama", &dir);
}
