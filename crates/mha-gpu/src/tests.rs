//! A device without registers has other tiles than one with wide subgroups. Here both kinds run on
//! the device that there is: they must compute the same. (That one of them is right, the tests of `mha` show
//! against its oracle.)

use cubecl::client::ComputeClient;
use cubecl::prelude::*;
use cubecl::server::Handle;
use cubecl::wgpu::WgpuRuntime;
use half::f16;

use crate::limits::Limits;
use crate::{
    Bools, Call, Dropout, Element, Hidden, Relative, Saved, Segments, Sink, Strided, Visible,
    Wanted,
};

type Client = ComputeClient<WgpuRuntime>;

/// `[batch, seq_q, n_keys, n_heads, n_kv_heads, head_dim, value_dim]`
type Sizes = [usize; 7];

/// Numbers between -1 and 1 (Marsaglia 2003, xorshift).
fn numbers(mut seed: u32, len: usize) -> Vec<f32> {
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        seed as f32 / (1u32 << 31) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

fn stored(client: &Client, numbers: &[f32], element: Element) -> Handle {
    let bytes: Vec<u8> = match element {
        Element::F32 => numbers.iter().flat_map(|number| number.to_le_bytes()).collect(),
        Element::F16 => {
            numbers.iter().flat_map(|&number| f16::from_f32(number).to_le_bytes()).collect()
        }
    };
    client.create_from_slice(&bytes)
}

fn read(client: &Client, handle: Handle, element: Element) -> Vec<f32> {
    let bytes = client.read_one(handle).expect("the device answers");
    match element {
        Element::F32 => {
            bytes.chunks(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
        }
        Element::F16 => bytes
            .chunks(2)
            .map(|two| f16::from_le_bytes(two.try_into().unwrap()).to_f32())
            .collect(),
    }
}

/// Everything that the two passes give.
fn results(client: &Client, call: &Call<'_>, software: bool) -> Vec<(&'static str, Vec<f32>)> {
    let limits = Limits::of(client, software);
    let output = crate::forward::within(client, call, limits).unwrap();
    let [batch, seq_q, n_heads, _] = call.query.dims;
    let dims = [batch, seq_q, n_heads, call.value.dims[3]];
    let d_context = stored(client, &numbers(99, dims.iter().product()), call.element);
    let saved = Saved {
        context: Strided::contiguous(output.context.clone(), dims),
        d_context: Strided::contiguous(d_context, dims),
        statistics: output.statistics,
    };
    let wanted =
        Wanted { query: true, key: true, value: true, bias: true, relative: true, sink: true };
    let gradients = crate::backward::within(client, call, &saved, wanted, limits).unwrap();
    let halves = [
        ("context", Some(output.context)),
        ("d_query", gradients.query),
        ("d_key", gradients.key),
        ("d_value", gradients.value),
    ];
    let floats = [
        ("lse", Some(output.lse)),
        ("d_bias", gradients.bias),
        ("d_relative", gradients.relative),
        ("d_sink", gradients.sink),
    ];
    let of = |element| move |(name, handle): (_, Option<Handle>)| Some((name, handle?, element));
    let all = halves.into_iter().filter_map(of(call.element));
    all.chain(floats.into_iter().filter_map(of(Element::F32)))
        .map(|(name, handle, element)| (name, read(client, handle, element)))
        .collect()
}

/// Checks a call of these sizes, with what `options` adds to it.
fn check<'a>(
    name: &str,
    sizes: Sizes,
    element: Element,
    options: impl FnOnce(&Client, &mut Call<'a>),
) {
    let client = WgpuRuntime::client(&Default::default());
    let [batch, seq_q, n_keys, n_heads, n_kv_heads, head_dim, value_dim] = sizes;
    let rows = |seed, dims: [usize; 4]| {
        let numbers = numbers(seed, dims.iter().product());
        Strided::contiguous(stored(&client, &numbers, element), dims)
    };
    let mut call = Call::new(
        element,
        rows(1, [batch, seq_q, n_heads, head_dim]),
        rows(2, [batch, n_keys, n_kv_heads, head_dim]),
        rows(3, [batch, n_keys, n_kv_heads, value_dim]),
    );
    call.scale = 2.0;
    options(&client, &mut call);
    let [there, here] = [false, true].map(|software| results(&client, &call, software));
    assert_eq!(there.len(), here.len());
    let error = if element == Element::F16 { 2f32.powi(-10) } else { 1e-5 };
    for ((part, there), (_, here)) in there.iter().zip(&here) {
        assert_eq!(there.len(), here.len(), "{name}: {part}");
        let largest = here.iter().filter(|x| x.is_finite()).fold(0f32, |max, x| max.max(x.abs()));
        assert!(largest > 0.0, "{name}: {part} is 0 everywhere");
        for (at, (there, here)) in there.iter().zip(here).enumerate() {
            let same = there == here || (there - here).abs() <= error * largest;
            assert!(same, "{name}: {part}[{at}] is {there} and {here}");
        }
    }
}

#[test]
fn the_tiles_of_both_kinds_of_devices() {
    let sizes = [2, 71, 149, 4, 2, 24, 40];
    check("plain", sizes, Element::F32, |_, _| {});
    check("halves", sizes, Element::F16, |_, _| {});
    check("wide heads", [1, 3, 5, 1, 1, 256, 200], Element::F32, |_, _| {});
    let runs = |_, i: usize| vec![0..1, i.max(1)..i + 40];
    check("rules, cap, sinks", sizes, Element::F32, |client, call| {
        call.visible = Some(Visible { entries: 1, row: &runs });
        call.softcap = Some(3.0);
        call.sink = Sink::Learned(stored(client, &[0.5, -1.0, 2.0, 0.0], Element::F32));
    });
    let ids = vec![(0..71).map(|i| i / 30).collect::<Vec<u32>>()];
    let key_ids = vec![(0..149).map(|j| j / 60).collect::<Vec<u32>>()];
    check("segments, mask, bias, dropout", sizes, Element::F32, |client, call| {
        call.segments = vec![Segments { query: &ids, key: &key_ids }];
        let words: Vec<u8> =
            (0..149u32).flat_map(|j| u32::from(j % 7 == 3).to_le_bytes()).collect();
        let mask = Strided::contiguous(client.create_from_slice(&words), [1, 1, 1, 149]);
        call.hidden = vec![Hidden { mask, bools: Bools::U32 }];
        let bias = stored(client, &numbers(5, 4 * 71), Element::F32);
        call.bias = Some(Strided::contiguous(bias, [1, 4, 71, 1]));
        call.sink = Sink::Learned(stored(client, &[9.0, 8.0, 10.0, 9.5], Element::F32));
        let seed = client.create_from_slice(&[7, 0, 0, 0, 9, 0, 0, 0]);
        call.dropout = Some(Dropout { probability: 0.2, seed });
    });
    let slopes = [0.5, 0.25, 0.125, 0.0625];
    check("distances", sizes, Element::F32, |client, call| {
        call.alibi = Some(&slopes);
        let table = stored(client, &numbers(6, 4 * 21), Element::F32);
        call.relative = Some(Relative { table, reach: 10 });
    });
}

#[test]
fn few_queries_on_both_kinds_of_devices() {
    for (seq_q, n_kv_heads) in [(1, 4), (1, 1), (3, 4)] {
        let sizes = [2, seq_q, 1031, 4, n_kv_heads, 24, 16];
        check("few queries", sizes, Element::F32, |client, call| {
            call.sink = Sink::Learned(stored(client, &[0.5, -1.0, 2.0, 0.0], Element::F32));
        });
    }
}
