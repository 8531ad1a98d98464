//! Configurations from files: old ones load, misspelt ones do not, none panics.

use burn::config::Config;
use burn::module::Initializer;
use mha::{Masking, MhaInitializer, MultiHeadAttentionConfig, ProjectionBias};
use mha_tests::{AnyBackend, tensor};

fn load(json: &str) -> Result<MultiHeadAttentionConfig, String> {
    MultiHeadAttentionConfig::load_binary(json.as_bytes()).map_err(|error| error.to_string())
}

fn build(config: &MultiHeadAttentionConfig) -> Result<(), String> {
    let module = config.try_init::<AnyBackend>(&Default::default());
    module.map(drop).map_err(|error| error.to_string())
}

/// What the file of 0.1.0 says.
pub(crate) fn everything_set() -> MultiHeadAttentionConfig {
    MultiHeadAttentionConfig::new(48, 6)
        .with_n_kv_heads(2)
        .with_head_dim(16)
        .with_value_dim(4)
        .with_d_key(24)
        .with_d_value(20)
        .with_d_output(40)
        .with_scale(0.5)
        .with_softcap(50.0)
        .with_dropout(0.25)
        .with_key_bias(false)
        .with_initializer(Initializer::Normal { mean: 0.0, std: 0.02 })
        .with_quiet_softmax(true)
        .with_masking(Masking::Overwrite { min_float: -30.0 })
}

#[test]
fn round_trip() {
    for config in [
        MultiHeadAttentionConfig::new(8, 2),
        MultiHeadAttentionConfig::new(8, 2).with_initializer(MhaInitializer::PyTorch),
        everything_set(),
    ] {
        assert_eq!(load(&burn::config::config_to_json(&config)), Ok(config));
    }
}

/// What version 0.1.0 saved; a new field must not break it.
#[test]
fn file_of_0_1_0() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/config-0.1.0.json");
    assert_eq!(MultiHeadAttentionConfig::load(path).expect("loads"), everything_set());
}

#[test]
fn missing_fields_take_the_defaults() {
    let config = load(r#"{"d_model": 8, "n_heads": 2}"#).expect("loads");
    assert_eq!(config, MultiHeadAttentionConfig::new(8, 2));
    assert_eq!(config.dropout, 0.1);
    assert_eq!(config.bias, ProjectionBias::default());
    let config = load(r#"{"d_model": 8, "n_heads": 2, "bias": {"value": false}}"#).expect("loads");
    assert!(!config.bias.value && config.bias.query && config.bias.key && config.bias.output);
}

#[test]
fn wrong_files_are_errors() {
    for (json, said) in [
        (r#"{"d_model": 8, "n_heads": 2, "dropuot": 0.5}"#, "unknown field `dropuot`"),
        (r#"{"d_model": 8}"#, "missing field `n_heads`"),
        (r#"{"d_model": -8, "n_heads": 2}"#, "invalid value: integer `-8`"),
        (r#"{"d_model": 8, "n_heads": 2, "bias": {"querry": true}}"#, "unknown field `querry`"),
        (r#"{"d_model": 8, "n_heads": 2, "initializer": "Xavier"}"#, "\"BurnNn\", \"PyTorch\""),
        (r#"{"d_model": 8, "n_heads": 2, "masking": "Exlude"}"#, "\"Exclude\""),
        (
            r#"{"d_model": 8, "n_heads": 2, "masking": "Exclude", "min_float": -1e4}"#,
            "duplicate field `masking`",
        ),
        ("", "EOF"),
    ] {
        let error = load(json).expect_err(json);
        assert!(error.contains(said), "{json}: {error}");
    }
}

#[test]
fn wrong_values_are_named() {
    let config = MultiHeadAttentionConfig::new;
    let each = |initializer| config(8, 2).with_initializer(Initializer::clone(&initializer));
    let gain = "initializer must have a gain in [1e-30, 1e30], got ";
    for (config, said) in [
        (config(0, 1), "d_model must be at least 1 and below 65536, got 0"),
        (config(65_536, 1), "d_model must be at least 1 and below 65536, got 65536"),
        (config(8, 0), "n_heads must be at least 1 and below 65536, got 0"),
        (config(2, 4), "n_heads must divide d_model, got n_heads 4 and d_model 2"),
        (config(8, 2).with_n_kv_heads(0), "n_kv_heads must be at least 1 and below 65536, got 0"),
        (
            config(8, 4).with_n_kv_heads(3),
            "n_kv_heads must divide n_heads, got n_kv_heads 3 and n_heads 4",
        ),
        (config(8, 2).with_head_dim(0), "head_dim must be at least 1 and below 65536, got 0"),
        (
            config(8, 2).with_head_dim(32_768),
            "head_dim must give all heads together less than 65536 features, got head_dim 32768 \
             and n_heads 2",
        ),
        (
            config(8, 2).with_value_dim(40_000),
            "value_dim must give all heads together less than 65536 features, got value_dim 40000 \
             and n_heads 2",
        ),
        (config(8, 2).with_d_key(0), "d_key must be at least 1 and below 65536, got 0"),
        (
            config(8, 2).with_d_value(70_000),
            "d_value must be at least 1 and below 65536, got 70000",
        ),
        (config(8, 2).with_d_output(0), "d_output must be at least 1 and below 65536, got 0"),
        (config(8, 2).with_scale(f64::INFINITY), "scale must be finite in f32, got inf"),
        (config(8, 2).with_softcap(0.0), "softcap must be in [1e-30, 1e30], got 0"),
        (config(8, 2).with_softcap(-2.0), "softcap must be in [1e-30, 1e30], got -2"),
        (config(8, 2).with_dropout(1.0), "dropout must be a probability in [0, 1), got 1"),
        (config(8, 2).with_dropout(-0.1), "dropout must be a probability in [0, 1), got -0.1"),
        (config(8, 2).with_dropout(f64::NAN), "dropout must be a probability in [0, 1), got NaN"),
        (
            config(8, 2).with_masking(Masking::Overwrite { min_float: f64::NEG_INFINITY }),
            "min_float must be finite in f32, got -inf",
        ),
        (
            each(Initializer::Uniform { min: 1.0, max: 1.0 }),
            "initializer must have min < max as f32, both within ±1e30, got Uniform { min: 1.0, \
             max: 1.0 }",
        ),
        (
            each(Initializer::Normal { mean: 0.0, std: -1.0 }),
            "initializer must have a mean within ±1e30 and a std in [0, 1e30], got Normal { mean: \
             0.0, std: -1.0 }",
        ),
        (
            each(Initializer::Constant { value: f64::NAN }),
            "initializer must have a value within ±1e30, got Constant { value: NaN }",
        ),
        (
            each(Initializer::XavierUniform { gain: 0.0 }),
            &format!("{gain}XavierUniform {{ gain: 0.0 }}"),
        ),
    ] {
        assert_eq!(build(&config), Err(said.to_string()));
        let panic = std::panic::catch_unwind(|| config.init::<AnyBackend>(&Default::default()));
        let panic = panic.expect_err("init panics with the same text");
        assert_eq!(panic.downcast_ref::<String>().map(String::as_str), Some(said));
    }
}

/// A file may hold any number; each gives a module that draws its parameters, or an error.
#[test]
fn no_file_panics() {
    let numbers = ["0", "1", "3", "8", "65535", "65536", "18446744073709551615"];
    for d_model in &numbers[..4] {
        for n_heads in numbers {
            check_file(&format!(r#"{{"d_model": {d_model}, "n_heads": {n_heads}}}"#));
        }
    }
    for field in ["n_kv_heads", "head_dim", "value_dim", "d_key", "d_value", "d_output"] {
        // Up to 8: a matrix with the larger ones takes gigabytes, or they are refused.
        for number in &numbers[..4] {
            check_file(&format!(r#"{{"d_model": 8, "n_heads": 2, "{field}": {number}}}"#));
        }
        for number in &numbers[5..] {
            let json = format!(r#"{{"d_model": 8, "n_heads": 2, "{field}": {number}}}"#);
            assert!(load(&json).map(|config| build(&config)).is_ok_and(|x| x.is_err()), "{json}");
        }
    }
    for d_model in &numbers[4..] {
        // Not built: a matrix of this width takes gigabytes.
        let json = format!(r#"{{"d_model": {d_model}, "n_heads": 7}}"#);
        assert!(
            load(&json).map(|config| build(&config)).is_ok_and(|built| built.is_err()),
            "{json}"
        );
    }
    for x in ["0", "-1", "1e-320", "1e-46", "1e-30", "0.5", "1e30", "1e39", "1e308", "-1e308"] {
        check_file(&format!(r#"{{"d_model": 8, "n_heads": 2, "dropout": {x}}}"#));
        check_file(&format!(r#"{{"d_model": 8, "n_heads": 2, "min_float": {x}}}"#));
        check_file(&format!(r#"{{"d_model": 8, "n_heads": 2, "scale": {x}, "softcap": {x}}}"#));
        for kind in [
            r#"{"Constant": {"value": X}}"#,
            r#"{"Uniform": {"min": 0, "max": X}}"#,
            r#"{"Uniform": {"min": X, "max": 0}}"#,
            r#"{"Uniform": {"min": X, "max": X}}"#,
            r#"{"Normal": {"mean": X, "std": 1}}"#,
            r#"{"Normal": {"mean": 0, "std": X}}"#,
            r#"{"KaimingUniform": {"gain": X, "fan_out_only": false}}"#,
            r#"{"KaimingNormal": {"gain": X, "fan_out_only": true}}"#,
            r#"{"XavierUniform": {"gain": X}}"#,
            r#"{"XavierNormal": {"gain": X}}"#,
            r#"{"Orthogonal": {"gain": X}}"#,
            r#"{"Each": {"Orthogonal": {"gain": X}}}"#,
        ] {
            let initializer = kind.replace('X', x);
            check_file(&format!(r#"{{"d_model": 8, "n_heads": 2, "initializer": {initializer}}}"#));
        }
    }
}

fn check_file(json: &str) {
    if let Ok(config) = load(json)
        && let Ok(module) = config.try_init::<AnyBackend>(&Default::default())
    {
        // The parameters are drawn at first use: that must not panic either.
        let tokens = |width: usize| tensor::<AnyBackend, 3, f32>(&vec![0.5; width], [1, 1, width]);
        let [key, value] =
            [config.d_key, config.d_value].map(|width| tokens(width.unwrap_or(config.d_model)));
        module.forward(mha::MhaInput::new(tokens(config.d_model), key, value));
    }
}

/// The presets draw from the ranges that they name.
#[test]
fn presets() {
    let bound = |initializer: MhaInitializer| {
        let config = MultiHeadAttentionConfig::new(64, 4).with_initializer(initializer);
        let module = config.init::<AnyBackend>(&Default::default());
        let max = |x: Vec<f32>| x.into_iter().map(f32::abs).fold(0.0, f32::max);
        [&module.query, &module.output].map(|linear| {
            let bias = linear.bias.as_ref().expect("a bias").val();
            (max(mha_tests::floats(linear.weight.val())), max(mha_tests::floats(bias)))
        })
    };
    // Of 4,096 uniform draws the largest lies in the last 1 % of the range, all but surely; of
    // 64 in the last 30 %.
    let near = |x: f32, bound: f32, share: f32| x <= bound && x > bound * share;

    let [(weight, bias), (output, _)] = bound(MhaInitializer::BurnNn);
    assert!(near(weight, 0.125, 0.99) && near(output, 0.125, 0.99) && near(bias, 0.125, 0.7));

    // PyTorch, embed_dim 64: √(6 / (4 * 64)) = 0.153093 for the stacked matrix, not Xavier's
    // 0.216506 for each of the three; 1/√64 for the output.
    let [(weight, bias), (output, output_bias)] = bound(MhaInitializer::PyTorch);
    assert!(near(weight, 0.153_093_2, 0.99) && near(output, 0.125, 0.99));
    assert_eq!((bias, output_bias), (0.0, 0.0));

    // With a width of its own for the keys, PyTorch keeps three matrices, each by Xavier's rule.
    let config = MultiHeadAttentionConfig::new(64, 4)
        .with_d_key(32)
        .with_initializer(MhaInitializer::PyTorch);
    let module = config.init::<AnyBackend>(&Default::default());
    let weight = |linear: &burn::nn::Linear<AnyBackend>| {
        mha_tests::floats(linear.weight.val()).into_iter().map(f32::abs).fold(0.0, f32::max)
    };
    assert!(near(weight(&module.query), 0.216_506_35, 0.99));
    assert!(near(weight(&module.key), 0.25, 0.99));
}
