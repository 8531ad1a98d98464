//! Shards and their index.

use std::fs;

use mha_files::Store;

use crate::common::{Folder, fixture, safetensors};

/// A folder with shards of one byte per name.
fn folder(shards: &[(&str, &[&str])]) -> Folder {
    let folder = Folder::new();
    for (shard, names) in shards {
        let entries: Vec<String> = names
            .iter()
            .enumerate()
            .map(|(at, name)| {
                let end = at + 1;
                format!(r#""{name}":{{"dtype":"U8","shape":[1],"data_offsets":[{at},{end}]}}"#)
            })
            .collect();
        let metadata = format!(r#""__metadata__":{{"format":"pt","shard":"{shard}"}}"#);
        let header = format!("{{{metadata},{}}}", entries.join(","));
        let data: Vec<u8> = (0..names.len() as u8).map(|at| at + 10 * shard.len() as u8).collect();
        fs::write(folder.join(shard), safetensors(&header, &data)).unwrap();
    }
    folder
}

fn open(folder: &Folder, index: &str) -> Result<Store, String> {
    let path = folder.join("model.safetensors.index.json");
    fs::write(&path, index).unwrap();
    Store::open(path).map_err(|error| error.to_string())
}

#[test]
fn the_index_decides() {
    let folder = folder(&[("a", &["x", "y", "z"]), ("bb", &["x", "w"])]);
    let index = r#"{"metadata":{"total_size":3},"weight_map":{"x":"bb","y":"a","w":"bb"}}"#;
    let store = open(&folder, index).unwrap();
    let names: Vec<&str> = store.entries().map(|(name, _)| name).collect();
    // `x` of `a` and `z` are none of the model's.
    assert_eq!(names, ["w", "x", "y"]);
    for (name, byte) in [("x", 20), ("w", 21), ("y", 11)] {
        assert_eq!(store.read(name).unwrap().bytes(), [byte], "{name}");
    }
    assert_eq!(store.metadata().len(), 1, "what all shards say");
    assert_eq!(store.metadata()["format"], "pt");
    // The folder finds its index.
    assert_eq!(Store::open(folder.path()).unwrap().entries().count(), 3);
    let error = store.read("z").unwrap_err().to_string();
    assert!(error.ends_with("index.json: no tensor `z` among 3"), "{error}");
}

#[test]
fn shards_of_pytorch_are_shards() {
    let folder = folder(&[("a", &["x"])]);
    fs::copy(fixture("kinds.pt"), folder.join("b.bin")).unwrap();
    let index = r#"{"weight_map":{"x":"a","dense":"b.bin","sparse":"b.bin"}}"#;
    let store = open(&folder, index).unwrap();
    assert_eq!(store.read("dense").unwrap().to_f64(), Some(vec![1.0, 1.0]));
    let error = store.read("sparse").unwrap_err().to_string();
    assert!(error.contains("expected a dense tensor"), "{error}");
}

#[test]
fn damaged_indexes_are_refused() {
    let folder = folder(&[("a", &["x"])]);
    fs::create_dir(folder.join("sub")).unwrap();
    fs::copy(folder.join("a"), folder.join("sub/a")).unwrap();
    let plain = "expected a shard in the folder of the index, by its plain name";
    let cases = [
        ("", "expected an index with a `weight_map`, got EOF"),
        ("{}", "missing field `weight_map`"),
        (r#"{"weight_map":[]}"#, "expected an object"),
        (r#"{"weight_map":{"x":1}}"#, "expected a string"),
        (r#"{"weight_map":{"x":"a","x":"a"}}"#, "the name `x` twice"),
        (r#"{"weight_map":{"x":"sub/a"}}"#, plain),
        (r#"{"weight_map":{"x":"sub\\a"}}"#, plain),
        (r#"{"weight_map":{"x":"./a"}}"#, plain),
        (r#"{"weight_map":{"x":"../a"}}"#, plain),
        (r#"{"weight_map":{"x":".."}}"#, plain),
        (r#"{"weight_map":{"x":""}}"#, plain),
        (r#"{"weight_map":{"x":"/etc/passwd"}}"#, plain),
        (r#"{"weight_map":{"x":"C:a"}}"#, plain),
        (r#"{"weight_map":{"x":"a\u0000"}}"#, plain),
        (r#"{"weight_map":{"x":"b"}}"#, "b: "),
        (r#"{"weight_map":{"x":"sub"}}"#, "sub: expected a file, got a folder"),
        (
            r#"{"weight_map":{"y":"a"}}"#,
            "tensor `y`: expected a shard that has it, got `a`, which lacks it",
        ),
        (
            r#"{"weight_map":{"x":"model.safetensors.index.json"}}"#,
            "model.safetensors.index.json: expected",
        ),
    ];
    for (index, text) in cases {
        let error = open(&folder, index).unwrap_err();
        assert!(error.contains(text), "{index}\n gave: {error}\n not: {text}");
    }
    let absolute = folder.join("a").display().to_string();
    let index = serde_json::json!({ "weight_map": { "x": absolute } });
    assert!(open(&folder, &index.to_string()).unwrap_err().contains(plain));
    assert_eq!(open(&folder, r#"{"weight_map":{}}"#).unwrap().entries().count(), 0);
}

#[test]
fn every_cut_of_an_index_is_refused() {
    let folder = folder(&[("a", &["x"])]);
    let index = r#"{"weight_map":{"x":"a"}}"#;
    for len in 0..index.len() {
        open(&folder, &index[..len]).unwrap_err();
    }
    open(&folder, index).unwrap();
}
