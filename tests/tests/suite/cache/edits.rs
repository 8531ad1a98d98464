//! Caches that are reordered, cut, copied, moved and emptied.

use burn::tensor::Tensor;
use burn::tensor::backend::{AutodiffBackend, Backend};
use mha::{KvCache, Mask, MhaInput, MultiHeadAttention, Rotary};
use mha_tests::{assert_same, floats, on_every_backend};

use super::{assert_near, config, kinds, module, part, refusal, step, tokens, whole};

on_every_backend!(
    beams,
    beams_of_nothing,
    speculation,
    what_is_forgotten_stays_so,
    forks,
    another_device,
    used_again,
);

/// A module in which positions, groups and widths all count.
fn any<B: Backend>() -> MultiHeadAttention<B> {
    module(&config().with_n_kv_heads(2).with_value_dim(3).with_position(Rotary::half(100.0)))
}

/// The entries of a batch, in another order.
fn pick<B: Backend>(tokens: &Tensor<B, 3>, entries: &[usize]) -> Tensor<B, 3> {
    let entry = |&entry: &usize| tokens.clone().narrow(0, entry, 1);
    Tensor::cat(entries.iter().map(entry).collect(), 0)
}

/// Beams come twice, leave, and change in number, again and again.
fn beams<B: AutodiffBackend>() {
    let module = any::<B::InnerBackend>();
    for (mut cache, rule) in kinds(9) {
        let mut past = tokens(1, 2, 4);
        step(&module, past.clone(), &mut cache);
        for (seed, entries) in
            [vec![1, 0, 1], vec![2, 2], vec![1], vec![0, 0, 0, 0]].iter().enumerate()
        {
            cache.reorder(entries).unwrap();
            let new = tokens(30 + seed as u64, entries.len(), 1);
            past = Tensor::cat(vec![pick(&past, entries), new.clone()], 1);
            let [batch, seq, _] = past.dims();
            let out = step(&module, new, &mut cache).context;
            assert_near("beams", &out, &part(&whole(&module, &past, &rule), seq - 1, 1));
            assert_eq!(cache.lengths(), vec![seq; batch]);
        }
        let lengths = cache.lengths().to_vec();
        let error = |entries: &[usize], cache: &mut KvCache<_>| {
            cache.reorder(entries).unwrap_err().to_string()
        };
        assert_eq!(error(&[0, 4], &mut cache), "entries must be below 4 (batch), got 4");
        assert_eq!(error(&[], &mut cache), "entries must name at least one, got none");
        assert_eq!(cache.lengths(), lengths);
    }
    // Entries of their own lengths take these along.
    let mut cache = KvCache::growing();
    let input = MhaInput::self_attn(tokens(1, 2, 4)).causal().new_lengths(vec![4, 2]);
    module.forward_cached(input, &mut cache);
    cache.reorder(&[1, 0]).unwrap();
    assert_eq!(cache.lengths(), [2, 4]);
    let new = tokens::<B::InnerBackend>(2, 2, 1);
    let out = step(&module, new.clone(), &mut cache).context;
    let first = part(&tokens(1, 2, 4).narrow(0, 1, 1), 0, 2);
    let first = Tensor::cat(vec![first, new.narrow(0, 0, 1)], 1);
    let expected = part(&whole(&module, &first, &Mask::none()), 2, 1);
    assert_near("ragged", &out.narrow(0, 0, 1), &expected);
}

/// A cache without a token, or emptied, has entries to reorder.
fn beams_of_nothing<B: AutodiffBackend>() {
    let module = any::<B::InnerBackend>();
    let all = tokens(1, 3, 5);
    for (fresh, rule) in kinds(9) {
        let mut unused = fresh.clone();
        let error = unused.reorder(&[0]).unwrap_err().to_string();
        assert_eq!(error, "entries must be below 0 (batch), got 0");
        let mut emptied = fresh.clone();
        step(&module, tokens(2, 2, 4), &mut emptied);
        emptied.clear();
        let mut without = fresh;
        step(&module, part(&tokens(2, 2, 1), 0, 0), &mut without);
        for mut cache in [emptied, without] {
            cache.reorder(&[1, 0, 0]).unwrap();
            let out = step(&module, all.clone(), &mut cache).context;
            assert_near("after nothing", &out, &whole(&module, &all, &rule));
        }
    }
}

/// Going back and on equals never having gone.
fn speculation<B: AutodiffBackend>() {
    let module = any::<B::InnerBackend>();
    let (all, guess) = (tokens(1, 2, 9), tokens(2, 2, 3));
    // A rolling cache can go back while it has forgotten nothing.
    for (kind, (mut cache, rule)) in kinds(9).into_iter().enumerate() {
        let expected = whole(&module, &all, &rule);
        let start = [4, 4, 1, 2][kind];
        step(&module, part(&all, 0, start), &mut cache);
        step(&module, part(&guess, 0, 2), &mut cache);
        cache.truncate(start).unwrap();
        cache.truncate(100).unwrap(); // shorter already
        assert_eq!(cache.lengths(), [start; 2]);
        let out = step(&module, part(&all, start, 9 - start), &mut cache).context;
        assert_near("gone back", &out, &part(&expected, start, 9 - start));
        assert_eq!(cache.len(), 9);
    }
    // All the way, and with entries of their own lengths.
    for (mut cache, _) in kinds(9).into_iter().take(2) {
        let input = MhaInput::self_attn(part(&all, 0, 5)).causal().new_lengths(vec![5, 2]);
        module.forward_cached(input, &mut cache);
        step(&module, guess.clone(), &mut cache);
        cache.truncate(3).unwrap();
        assert_eq!(cache.lengths(), [3, 3]); // the second entry has a guess of its own
        cache.truncate(2).unwrap();
        let out = step(&module, part(&all, 2, 4), &mut cache).context;
        let expected = whole(&module, &part(&all, 0, 6), &Mask::none());
        assert_near("ragged", &out, &part(&expected, 2, 4));
        cache.truncate(0).unwrap();
        assert!(cache.is_empty());
        let out = step(&module, all.clone(), &mut cache).context;
        assert_near("from the start", &out, &whole(&module, &all, &Mask::none()));
    }
}

fn what_is_forgotten_stays_so<B: AutodiffBackend>() {
    let module = any::<B::InnerBackend>();
    let all = tokens(1, 2, 9);
    for (mut cache, rule) in kinds(9).into_iter().skip(2) {
        step(&module, part(&all, 0, 8), &mut cache);
        let error = cache.truncate(7).unwrap_err().to_string();
        let said = "len must be at least 8 in a rolling cache that has forgotten keys, got 7";
        assert_eq!(error, said);
        cache.truncate(8).unwrap();
        assert_eq!(cache.lengths(), [8; 2]);
        let out = step(&module, part(&all, 8, 1), &mut cache).context;
        assert_near("on", &out, &part(&whole(&module, &all, &rule), 8, 1));
    }
}

/// Two continuations of one beginning, turn by turn.
fn forks<B: AutodiffBackend>() {
    let module = any::<B::InnerBackend>();
    for (mut cache, rule) in kinds(9) {
        let start = tokens(1, 2, 4);
        step(&module, start.clone(), &mut cache);
        let ways = [2, 3].map(|seed| tokens(seed, 2, 5));
        let mut caches = [cache.clone(), cache];
        let expected = ways.clone().map(|way| {
            part(&whole(&module, &Tensor::cat(vec![start.clone(), way], 1), &rule), 4, 5)
        });
        for [at, n] in [[0, 1], [1, 1], [2, 3]] {
            for way in 0..2 {
                let out = step(&module, part(&ways[way], at, n), &mut caches[way]).context;
                assert_near("fork", &out, &part(&expected[way], at, n));
            }
        }
    }
}

fn another_device<B: AutodiffBackend>() {
    let module = any::<B::InnerBackend>();
    let all = tokens(1, 2, 5);
    for (fresh, _) in kinds(9) {
        let run = |moved: bool| {
            let mut cache = fresh.clone();
            step(&module, part(&all, 0, 4), &mut cache);
            let device = Default::default();
            let mut cache = if moved { cache.to_device(&device) } else { cache };
            assert_eq!(cache.lengths(), [4; 2]);
            floats(step(&module, part(&all, 4, 1), &mut cache).context)
        };
        assert_same(&run(true), &run(false));
        assert!(fresh.clone().to_device(&Default::default()).is_empty());
    }
}

/// An emptied cache serves another text as a new one does, bit for bit.
fn used_again<B: AutodiffBackend>() {
    let module = any::<B::InnerBackend>();
    let all = tokens(1, 2, 7);
    for (fresh, _) in kinds(9) {
        let mut used = fresh.clone();
        step(&module, tokens(2, 2, 8), &mut used);
        used.clear();
        assert!(used.is_empty());
        assert_eq!((used.lengths(), used.capacity()), (&[0, 0][..], fresh.capacity()));
        let mut fresh = fresh;
        for [start, n] in [[0, 3], [3, 1], [4, 3]] {
            let piece = part(&all, start, n);
            let [ours, expected] = [&mut used, &mut fresh]
                .map(|cache| floats(step(&module, piece.clone(), cache).context));
            assert_same(&ours, &expected);
        }
        // It still has its entries.
        used.clear();
        let input = MhaInput::self_attn(tokens(2, 3, 1));
        assert_eq!(refusal(&module, input, &mut used), "cache must have 3 (batch) entries, got 2");
    }
}
