//! Tiles of devices that need not be there.

use super::*;

fn device(software: bool, buffer: usize) -> Limits {
    Limits {
        shared: 2 * SHARED,
        cubes: 65_535,
        units: if software { 8 } else { 64 },
        most_units: 256,
        software,
        word: u32::as_type_native_unchecked().storage_type(),
        buffer,
        turns: usize::MAX,
    }
}

fn sizes(batch: usize, seq_q: usize, n_keys: usize) -> Sizes {
    let [n_heads, n_kv_heads, head_dim, value_dim] = [64, 64, 64, 64];
    Sizes { batch, seq_q, n_keys, seq_k: n_keys, n_heads, n_kv_heads, head_dim, value_dim }
}

const PLAIN: Options = Options { dropout: false, ruled: false };

/// Each unit has sums of its own where keys are split: 64 times a tensor, which a device may not hold.
#[test]
fn keys_are_split_over_units_where_their_sums_fit() {
    let spread = |batch, buffer| {
        device(false, buffer).forward(&sizes(batch, 1, 4096), PLAIN).unwrap().spread
    };
    // Units, heads, features, bytes.
    let sums = 64 * 64 * 64 * 4;
    assert!(spread(1, sums));
    assert!(!spread(1, sums - 1));
    assert!(spread(1 << 13, usize::MAX));
    assert!(!spread(1 << 14, usize::MAX), "more than 32 bits count");
}

/// Small blocks where rules hide pairs, so that more tiles can be left out.
#[test]
fn rows_and_units_of_a_block() {
    let of = |software, seq, options| {
        let spec = device(software, 1 << 40).forward(&sizes(1, seq, seq), options).unwrap();
        (spec.rows, spec.units)
    };
    assert_eq!(of(true, 1024, PLAIN), (16, 16));
    assert_eq!(of(true, 1024, Options { ruled: true, ..PLAIN }), (8, 8));
    assert_eq!(of(true, 64, PLAIN), (2, 8));
    assert_eq!(of(false, 1024, PLAIN), (1, 64));
}

/// With 16 KiB, which is what WebGPU promises, and with twice as much.
#[test]
fn heads_up_to_the_widest_fit_in_shared_memory() {
    for (software, shared) in [(true, SHARED), (true, 2 * SHARED), (false, SHARED)] {
        let device = Limits { shared, ..device(software, usize::MAX) };
        for width in [1, 24, 64, 100, 256] {
            for seq in [1, 4, 64, 512, 2048, 100_000] {
                let sizes = Sizes { head_dim: width, value_dim: width, ..sizes(1, seq, seq) };
                for bits in 0..4 {
                    let options = Options { dropout: bits & 1 == 1, ruled: bits & 2 == 2 };
                    for spec in [
                        device.forward(&sizes, options),
                        device.d_query(&sizes, options),
                        device.d_key_value(&sizes, options),
                    ] {
                        assert!(spec.is_ok(), "{software} {shared} {width} {seq}: {spec:?}");
                    }
                }
            }
        }
    }
}
