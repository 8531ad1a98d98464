//! Files that PyTorch wrote, beside what PyTorch reads in them.

use mha_files::{Array, Dtype, Store};

use crate::common::{fixture, fixture_bytes};

/// That two files hold the same tensors, bit for bit.
#[track_caller]
fn assert_same(name: &str, expected: &str) {
    let (ours, expected) = (fixture(name), fixture(expected));
    let (ours, expected) = (Store::open(ours).unwrap(), Store::open(expected).unwrap());
    let names = |store: &Store| store.entries().map(|(n, _)| n.to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&ours), names(&expected), "{name}");
    for (tensor, entry) in expected.entries() {
        assert_eq!(ours.entry(tensor), Some(entry), "{name}: {tensor}");
        let (array, expected) = (ours.read(tensor).unwrap(), expected.read(tensor).unwrap());
        assert_eq!(array.bytes(), expected.bytes(), "{name}: {tensor}");
    }
}

#[test]
fn every_type_and_view_is_what_pytorch_reads() {
    assert_same("state.pt", "state.safetensors");
    assert_same("state-protocol5.pt", "state.safetensors");
}

#[test]
fn nested_dicts_become_names() {
    assert_same("checkpoint.pt", "checkpoint.safetensors");
    let store = Store::open(fixture("checkpoint.pt")).unwrap();
    for name in ["state_dict.0.weight", "optimizer.state.3.exp_avg", "list.0", "list.2.0"] {
        assert!(store.entry(name).is_some(), "{name}");
    }
    // Of `argparse.Namespace` nothing is known, nor of a key that is neither text nor an integer.
    assert!(store.entries().all(|(name, _)| !name.contains("args") && !name.contains("classes")));
}

/// The other reader of our trouble took a transposed matrix for the matrix itself.
#[test]
fn strides_are_not_ignored() {
    let store = Store::open(fixture("small.pt")).unwrap();
    assert_eq!(store.read("weight").unwrap().to_f64(), Some(vec![1.0, 3.0, 2.0, 4.0]));
    let store = Store::open(fixture("state.pt")).unwrap();
    let array = store.read("columns").unwrap();
    assert_eq!(array.shape(), [4, 3]);
    let odd: Vec<f64> = (0..24).filter(|x| x % 2 == 1).map(f64::from).collect();
    assert_eq!(array.to_f64(), Some(odd));
    assert_eq!(store.read("element").unwrap().to_f64(), Some(vec![23.0]));
}

#[test]
fn payloads_of_nan_survive() {
    let store = Store::open(fixture("state.pt")).unwrap();
    let words = [0x7fc1_2345_u32, 0xffc0_0001, 0x7f80_0000, 0x8000_0000];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(store.read("payloads").unwrap().bytes(), bytes);
}

#[test]
fn tied_tensors_are_both_there() {
    let store = Store::open(fixture("state.pt")).unwrap();
    assert_eq!(store.read("tied.a").unwrap(), store.read("tied.b").unwrap());
}

#[test]
fn a_file_without_checksums_is_read() {
    assert_same("small.pt", "small.safetensors");
    assert_same("small-without-crc.pt", "small.safetensors");
}

#[test]
fn a_tensor_alone_has_the_empty_name() {
    let store = Store::open(fixture("alone.pt")).unwrap();
    assert_eq!(store.entries().map(|(name, _)| name).collect::<Vec<_>>(), [""]);
    assert_eq!(store.read("").unwrap().to_f64(), Some(vec![1.0, 1.0]));
}

#[test]
fn kinds_that_are_not_read_are_named() {
    let store = Store::open(fixture("kinds.pt")).unwrap();
    assert_eq!(store.entries().map(|(name, _)| name).collect::<Vec<_>>(), ["dense"]);
    let kinds = [
        ("sparse", "one of torch._utils._rebuild_sparse_tensor"),
        ("quantized", "one of torch._utils._rebuild_qtensor"),
        ("negative", "one with its conjugate or its negative pending"),
        ("complex128", "one of torch.ComplexDoubleStorage"),
        ("nowhere", "one of torch._utils._rebuild_meta_tensor_no_storage"),
    ];
    for (name, kind) in kinds {
        let error = store.read(name).unwrap_err().to_string();
        let text = format!("tensor `{name}`: expected a dense tensor, got {kind}");
        assert!(error.ends_with(&text), "{error}");
    }
}

#[test]
fn what_is_no_checkpoint_says_what_it_is() {
    let cases = [
        (
            "module.pt",
            "expected a dict of tensors, such as `model.state_dict()`, got what torch.nn.modules.linear.Linear makes",
        ),
        (
            "old-format.pt",
            "expected a zip archive, as torch.save writes since PyTorch 1.6, got PyTorch's format from before 1.6: load it with PyTorch and save it again",
        ),
        ("compressed.pt", "expected a stored record `byteorder`, got a compressed one"),
        (
            "repeated.pt",
            "tensor `repeated`: expected at most the 1 elements of storage `data/0`, got F32 [1000]",
        ),
    ];
    for (name, text) in cases {
        let error = Store::open(fixture(name)).unwrap_err().to_string();
        assert!(error.contains(text), "{error}\n not: {text}");
    }
    let mut tar = vec![0; 512];
    tar[257..262].copy_from_slice(b"ustar");
    let error = Store::from_bytes(tar).unwrap_err().to_string();
    assert!(error.contains("got a tar archive (PyTorch's first format): load it"), "{error}");
    let error = Store::from_bytes(b"\x80\x04K\x01.\0\0\0\0".to_vec()).unwrap_err().to_string();
    assert!(error.contains("got a pickle that is not torch.save's"), "{error}");
}

#[test]
fn bytes_in_memory_are_the_file() {
    let store = Store::from_bytes(fixture_bytes("small.pt")).unwrap();
    assert_eq!(store.entry("bias").unwrap().dtype, Dtype::F32);
    assert_eq!(store.read("bias").unwrap().to_f64(), Some(vec![0.5]));
}

#[test]
fn threads_read_at_once() {
    let store = Store::open(fixture("state.pt")).unwrap();
    let read = || -> Vec<Array> {
        (0..20).flat_map(|_| store.entries().map(|(name, _)| store.read(name).unwrap())).collect()
    };
    let expected = read();
    std::thread::scope(|scope| {
        let threads = [scope.spawn(read), scope.spawn(read)];
        for thread in threads {
            assert_eq!(thread.join().unwrap(), expected);
        }
    });
}
