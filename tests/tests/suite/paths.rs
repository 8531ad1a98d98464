//! Which path a call takes, that it says so, and what the kernels' path must not forget.

use burn::module::Module;
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Bool, Tensor};
use mha::{
    AttentionOptions, Mask, MhaInput, MultiHeadAttentionConfig, Path, PathTaken, Reason, Sink,
    T5Buckets, Weights, attention, attention_path,
};
use mha_tests::{assert_close, assert_same, floats, numbers, on_every_path, tensor, wide};

on_every_path!(
    gradients_of_some,
    without_tracking,
    views_of_all_kinds,
    a_loss_without_the_context,
    called_twice,
    far_buckets,
);

/// Query `[2, 5, 4, 6]`, key and value `[2, 7, 2, 6]`: two heads for each key head.
fn qkv<B: Backend>() -> [Tensor<B, 4>; 3] {
    let shapes = [[2, 5, 4, 6], [2, 7, 2, 6], [2, 7, 2, 6]];
    [0, 1, 2].map(|which| {
        let dims: [usize; 4] = shapes[which];
        tensor(&numbers(which as u64 + 1, dims.iter().product()), dims)
    })
}

fn bias<B: Backend>() -> Tensor<B, 4> {
    tensor(&numbers(4, 4 * 7), [1, 4, 1, 7])
}

#[test]
fn kernels_are_there() {
    use burn::backend::Autodiff;
    use burn::backend::autodiff::checkpoint::strategy::BalancedCheckpointing as Balanced;
    fn all<B: Backend>() -> [bool; 4] {
        [
            mha::is_fused::<B>(),
            mha::is_fused::<Autodiff<B>>(),
            mha::is_fused::<Autodiff<B, Balanced>>(),
            // Its gradients would have to have gradients.
            mha::is_fused::<Autodiff<Autodiff<B>>>(),
        ]
    }
    let there = [true, true, true, false];
    #[cfg(feature = "ndarray")]
    {
        use burn::backend::NdArray;
        assert_eq!(all::<NdArray>(), there);
        assert_eq!(all::<NdArray<f32, i32>>(), there);
        assert_eq!(all::<NdArray<f64>>(), there);
        assert_eq!(all::<NdArray<f64, i32>>(), there);
        assert_eq!(all::<NdArray<f32, i8>>(), [false; 4]);
    }
    #[cfg(feature = "flex")]
    assert_eq!(all::<burn::backend::Flex>(), there);
    #[cfg(feature = "wgpu")]
    {
        use burn::backend::Wgpu;
        assert_eq!(all::<Wgpu>(), there);
        assert_eq!(all::<Wgpu<f32, i32, u8>>(), there);
        assert_eq!(all::<Wgpu<burn::tensor::f16>>(), there);
        assert_eq!(all::<Wgpu<f32, i64>>(), [false; 4]);
    }
}

#[cfg(feature = "ndarray")]
#[test]
fn others_register() {
    use burn::backend::{Autodiff, NdArray};
    type B = Autodiff<NdArray<f32, u8>>;
    let [query, key, value] = qkv::<B>();
    let path = |options| attention_path(&query, &key, &value, &options).unwrap();
    let options = AttentionOptions::default().causal();
    assert_eq!(path(options.clone()), PathTaken::Plain(Reason::NoKernels));
    let run = || attention(query.clone(), key.clone(), value.clone(), &options).context;
    let expected = floats(run());
    mha::register::<B>();
    mha::register::<B>(); // twice is once
    assert_eq!(path(options.clone()), PathTaken::Fused);
    assert!(!mha::is_fused::<NdArray<f32, u8>>()); // each type is its own
    assert_close(&floats(run()), &wide(&expected), 1e-6);
}

#[cfg(feature = "ndarray")]
#[test]
fn a_call_says_its_path() {
    type B = burn::backend::NdArray;
    let [query, key, value] = qkv::<B>();
    let all = |options: &AttentionOptions<B>| attention_path(&query, &key, &value, options);
    let path = |options: AttentionOptions<B>| all(&options).unwrap();
    let error = |options: AttentionOptions<B>| {
        let options = options.path(Path::Fused);
        let error = all(&options).unwrap_err().to_string();
        let call = mha::try_attention(query.clone(), key.clone(), value.clone(), &options);
        assert_eq!(call.map(drop).unwrap_err().to_string(), error);
        error
    };
    let options = AttentionOptions::<B>::default;
    let overwrite = mha::Masking::Overwrite { min_float: -1e4 };
    for bare in [options(), options().path(Path::Fused), options().return_lse().bias(bias())] {
        assert_eq!(path(bare), PathTaken::Fused);
    }
    assert_eq!(path(options().path(Path::Plain)), PathTaken::Plain(Reason::AskedFor));
    assert_eq!(path(options().return_weights()), PathTaken::Plain(Reason::Weights));
    assert_eq!(path(options().return_dropped_weights()), PathTaken::Plain(Reason::Weights));
    assert_eq!(path(options().masking(overwrite)), PathTaken::Plain(Reason::Overwrites));
    assert_eq!(
        error(options().return_weights()),
        "path must be Auto or Plain: weights were asked for, got Fused"
    );
    assert_eq!(
        error(options().masking(overwrite)),
        "path must be Auto or Plain: masking overwrites scores, as burn::nn does, got Fused"
    );

    // What does not fit is said first.
    let wrong = options().scale(f64::NAN);
    assert_eq!(all(&wrong).unwrap_err().to_string(), "scale must be finite in f32, got NaN");
    // Without pairs there is nothing that a kernel could not do.
    let none = key.clone().narrow(1, 0, 1).slice_fill([0..2, 0..1], 0.0);
    let none = Tensor::zeros([2, 0, 2, 6], &none.device());
    let options = options().path(Path::Fused);
    let path = attention_path(&query, &none, &none, &options).unwrap();
    assert_eq!(path.to_string(), "plain: there is no pair of query and key");
    assert!(mha::try_attention(query.clone(), none.clone(), none, &options).is_ok());
}

#[cfg(feature = "ndarray")]
#[test]
fn unknown_backends_are_plain() {
    type B = burn::backend::NdArray<f32, i16>;
    let [query, key, value] = qkv::<B>();
    let options = AttentionOptions::default().path(Path::Fused);
    assert_eq!(
        attention_path(&query, &key, &value, &options).unwrap_err().to_string(),
        "path must be Auto or Plain: no kernels are known for this backend; see mha::register, \
         got Fused"
    );
}

#[cfg(feature = "ndarray")]
#[test]
fn a_module_says_its_path() {
    type B = burn::backend::NdArray;
    let device = Default::default();
    let config = || MultiHeadAttentionConfig::new(8, 2);
    let input = || MhaInput::self_attn(Tensor::<B, 3>::ones([1, 5, 8], &device)).causal();
    let module = config().init::<B>(&device);
    assert_eq!(module.attention_path(&input()).unwrap(), PathTaken::Fused);
    let with_weights = input().weights(Weights::Averaged);
    let expected = PathTaken::Plain(Reason::Weights);
    assert_eq!(module.attention_path(&with_weights).unwrap(), expected);
    let explained = module.explain(&input()).unwrap();
    assert_eq!(explained.path, PathTaken::Fused);
    let words = "path: fused: kernels of the backend\n\
                 shown: the same in tensor operations, since kernels keep no weights\n";
    assert!(explained.to_string().contains(words), "{explained}");
    assert_eq!(module.explain(&with_weights).unwrap().path, expected);

    // A call overrides the configuration, which a file may leave out.
    let plain = config().with_path(Path::Plain);
    let json = serde_json::to_string(&plain).unwrap();
    assert_eq!(serde_json::from_str::<MultiHeadAttentionConfig>(&json).unwrap(), plain);
    let plain = plain.init::<B>(&device);
    let path = |input| plain.attention_path(&input).unwrap();
    assert_eq!(path(input()), PathTaken::Plain(Reason::AskedFor));
    assert_eq!(path(input().path(Path::Auto)), PathTaken::Fused);
    let error = plain.try_forward(with_weights.path(Path::Fused)).map(drop).unwrap_err();
    let words = "path must be Auto or Plain: weights were asked for, got Fused";
    assert_eq!(error.to_string(), words);

    let compat = config().burn_nn_compat().with_path(Path::Fused).init::<B>(&device);
    let error = compat.try_forward(input()).map(drop).unwrap_err().to_string();
    assert!(error.contains("masking overwrites scores"), "{error}");
    // What a module is asked for besides its output has weights, and no error.
    let fused = config().with_path(Path::Fused).init::<B>(&device);
    assert!(fused.weights_of(input(), &[0], &[0]).is_ok());
    assert!(fused.explain(&input()).is_ok());
    // A refused call leaves a cache as it was.
    let mut cache = mha::KvCache::growing();
    fused.forward_cached(input(), &mut cache);
    let weights = input().weights(Weights::PerHead);
    assert!(fused.try_forward_cached(weights, &mut cache).is_err());
    assert_eq!(cache.len(), 5);
}

/// Only what is tracked has a gradient, and that is the one it has when everything is.
fn gradients_of_some<B: AutodiffBackend>(path: Path) {
    let run = |tracked: [bool; 4]| {
        let [query, key, value] = qkv::<B>();
        let leaves = [query, key, value, bias()];
        let leaves: Vec<_> =
            leaves.into_iter().zip(tracked).map(|(x, on)| x.set_require_grad(on)).collect();
        let [query, key, value, bias] = [0, 1, 2, 3].map(|which: usize| leaves[which].clone());
        let options = AttentionOptions::default().causal().bias(bias).path(path);
        let gradients = attention(query, key, value, &options).context.powi_scalar(2).sum();
        let gradients = gradients.backward();
        leaves.iter().map(|x| x.grad(&gradients).map(floats)).collect::<Vec<_>>()
    };
    let all = run([true; 4]);
    for choice in 1..16 {
        let tracked = [0, 1, 2, 3].map(|which| choice >> which & 1 == 1);
        for ((ours, all), tracked) in run(tracked).iter().zip(&all).zip(tracked) {
            assert_eq!(ours.is_some(), tracked, "{choice:b}");
            if let Some((ours, all)) = ours.as_ref().zip(all.as_ref()) {
                assert_close(ours, &wide(all), 1e-6);
            }
        }
    }
}

/// The same numbers without gradients: on a backend with autodiff, and on that inside of it.
fn without_tracking<B: AutodiffBackend>(path: Path) {
    use burn::module::AutodiffModule;
    let device = Default::default();
    let config = MultiHeadAttentionConfig::new(8, 2).with_sink(Sink::Learned).with_path(path);
    let config = config.with_position(T5Buckets::bidirectional()).with_dropout(0.0);
    let module = config.init::<B>(&device);
    let tokens = tensor::<B, 3, _>(&numbers(1, 2 * 5 * 8), [2, 5, 8]);
    let input = MhaInput::self_attn(tokens.clone()).causal().lse();
    let tracked = module.forward(input.clone());
    let untracked = module.clone().no_grad().forward(input);
    let valid = module.valid().forward(MhaInput::self_attn(tokens.inner()).causal().lse());
    assert_same(&floats(tracked.context.clone()), &floats(untracked.context));
    assert_same(&floats(tracked.context.inner()), &floats(valid.context));
    assert_same(&floats(tracked.lse.unwrap().inner()), &floats(valid.lse.unwrap()));
}

/// Keys that run backwards, repeat or lie in others, and a mask that repeats.
fn views_of_all_kinds<B: AutodiffBackend>(path: Path) {
    let device = Default::default();
    let copy = |x: &Tensor<B, 4>| tensor::<B, 4, _>(&floats(x.clone()), x.dims());
    let [query, key, value] = qkv::<B>();
    let wide_key = tensor::<B, 4, _>(&numbers(7, 2 * 9 * 3 * 8), [2, 9, 3, 8]);
    let views = [
        [query.clone().flip([1, 3]), key.clone().flip([0, 1]), value.clone().flip([2])],
        [
            query.clone(),
            wide_key.clone().slice([0..2, 1..8, 0..2, 2..8]),
            wide_key.slice([0..2, 2..9, 1..3, 0..6]),
        ],
        [
            query.clone().narrow(0, 0, 1).expand([2, 5, 4, 6]),
            key.narrow(2, 0, 1).expand([2, 7, 2, 6]),
            value.narrow(1, 0, 1).expand([2, 7, 2, 6]),
        ],
        [
            query.narrow(3, 0, 1).expand([2, 5, 4, 6]),
            tensor::<B, 4, _>(&numbers(8, 168), [6, 2, 7, 2]).permute([1, 2, 3, 0]),
            tensor::<B, 4, _>(&numbers(9, 168), [7, 2, 6, 2]).permute([1, 0, 3, 2]),
        ],
    ];
    let hidden = [false, true, false, false, false, true, false];
    let hidden = Tensor::<B, 1, Bool>::from_bool(hidden.into(), &device);
    let hidden = hidden.reshape([1, 1, 7]).flip([2]).expand([2, 5, 7]);
    let options = AttentionOptions::default().mask(Mask::block(hidden)).bias(bias().flip([1]));
    let options = options.path(path);
    for views in views {
        let run = |[query, key, value]: [Tensor<B, 4>; 3]| {
            let all = [query, key, value].map(|x| x.detach().require_grad());
            let [query, key, value] = all.clone();
            let out = attention(query, key, value, &options).context;
            let gradients = out.clone().powi_scalar(2).sum().backward();
            let gradients = all.map(|x| floats(x.grad(&gradients).unwrap()));
            [vec![floats(out)], gradients.to_vec()].concat()
        };
        let copies = [&views[0], &views[1], &views[2]].map(copy);
        for (ours, expected) in run(views).iter().zip(run(copies)) {
            assert_same(ours, &expected);
        }
    }
}

/// Values that no loss depends on, and a context of which only a part counts.
fn a_loss_without_the_context<B: AutodiffBackend>(path: Path) {
    let [query, key, value] = qkv::<B>().map(Tensor::require_grad);
    let options = AttentionOptions::default().return_lse().path(path);
    let out = attention(query.clone(), key.clone(), value, &options);
    assert!(!out.lse.unwrap().is_require_grad());
    let gradients = out.context.narrow(1, 2, 1).sum().backward();
    let query = floats(query.grad(&gradients).unwrap().narrow(1, 3, 2));
    assert!(query.iter().all(|&x| x == 0.0));
}

/// A tensor that is query, key and value at once, in two calls, has the sum of all its gradients.
fn called_twice<B: AutodiffBackend>(path: Path) {
    let tokens = || tensor::<B, 4, _>(&numbers(1, 2 * 5 * 3 * 4), [2, 5, 3, 4]).require_grad();
    let options = AttentionOptions::default().causal().path(path);
    let call = |x: [&Tensor<B, 4>; 3]| {
        let [query, key, value] = x.map(Tensor::clone);
        attention(query, key, value, &options).context
    };
    let one = tokens();
    let twice = call([&one, &one, &one]) + call([&one, &one, &one]);
    let ours = floats(one.grad(&twice.powi_scalar(2).sum().backward()).unwrap());
    let three = [tokens(), tokens(), tokens()];
    let context = call([&three[0], &three[1], &three[2]]).mul_scalar(2.0);
    let gradients = context.powi_scalar(2).sum().backward();
    let all = three.map(|x| floats(x.grad(&gradients).unwrap()));
    let sums: Vec<f64> =
        (0..ours.len()).map(|at| all.iter().map(|x| f64::from(x[at])).sum()).collect();
    assert_close(&ours, &sums, 1e-5);
}

/// Buckets that reach farther than any distance, and queries far behind the keys.
fn far_buckets<B: AutodiffBackend>(path: Path) {
    let [query, key, value] = qkv::<B>();
    let table = tensor::<B, 2, _>(&numbers(6, 32 * 4), [32, 4]);
    let run = |buckets: T5Buckets, offset: i64, path| {
        let options = AttentionOptions::default().query_offset(offset).path(path);
        let options = options.t5(buckets, table.clone());
        attention(query.clone(), key.clone(), value.clone(), &options).context
    };
    for buckets in [T5Buckets::bidirectional(), T5Buckets::causal()] {
        for (max_distance, offset) in [(17, 2), (20, 3), (128, 400), (1_000_000, -500)] {
            let buckets = buckets.with_max_distance(max_distance);
            let expected = floats(run(buckets, offset, Path::Plain));
            assert_close(&floats(run(buckets, offset, path)), &wide(&expected), 1e-6);
        }
    }
    let farthest = T5Buckets::bidirectional().with_max_distance(usize::MAX);
    let expected = floats(run(farthest, i64::MAX, Path::Plain));
    assert_same(&floats(run(farthest, i64::MAX, Path::Auto)), &expected);
    let options = AttentionOptions::default().query_offset(i64::MAX).t5(farthest, table.clone());
    if path == Path::Fused {
        let path = attention_path(&query, &key, &value, &options).unwrap();
        assert_eq!(path, PathTaken::Plain(Reason::FarDistances));
    }
}

/// ALiBi with an offset of each entry, on either path.
#[cfg(feature = "ndarray")]
#[test]
fn offsets_of_entries() {
    type B = burn::backend::NdArray;
    let [query, key, value] = qkv::<B>();
    let run = |path| {
        let options = AttentionOptions::default().alibi(mha::alibi_slopes(4)).path(path);
        let options = options.query_offset(vec![-3, 9]).causal();
        floats(attention(query.clone(), key.clone(), value.clone(), &options).context)
    };
    assert_close(&run(Path::Fused), &wide(&run(Path::Plain)), 1e-6);
}
