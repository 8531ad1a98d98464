//! From nested dicts to names.

use super::archive::Archive;
use super::rebuild::{self, Found};
use super::value::{Node, Pickle, Value};
use crate::Error;
use crate::error::Problem;
use crate::source::Source;
use crate::store::Contents;

/// How deep dicts may lie in each other. A dict that holds itself is deeper.
const DEEPEST: usize = 64;

/// Finds every tensor in the pickle's dicts, lists and tuples; its name is the keys on the way to it,
/// joined by `.`. A file that is one tensor gives it the empty name. What keys other than text and
/// integers lead to is left out.
pub(super) fn walk<'p>(
    pickle: &Pickle<'p>,
    archive: &Archive,
    source: &Source,
) -> Result<Contents, Error> {
    // What a pickle names once it may reach by many ways, which makes more names than the file has
    // bytes: an honest file stays far below this.
    let budget = (64 << 10) + pickle.len.saturating_mul(16);
    let name = String::new();
    let mut walk = Walk { pickle, archive, source, contents: Contents::default(), name, budget };
    if !walk.visit(pickle.top, 0)? {
        let expected = "a dict of tensors, such as `model.state_dict()`";
        return Err(source.refuse(Problem::new(expected, pickle.describe(pickle.top))));
    }
    Ok(walk.contents)
}

struct Walk<'a, 'p> {
    pickle: &'a Pickle<'p>,
    archive: &'a Archive,
    source: &'a Source,
    contents: Contents,
    /// The keys on the way to where we are.
    name: String,
    /// How many more bytes names and shapes may take.
    budget: usize,
}

impl<'a, 'p> Walk<'a, 'p> {
    /// Takes what a value holds; whether it may hold a tensor.
    fn visit(&mut self, value: Value, depth: usize) -> Result<bool, Error> {
        self.pay(16 + self.name.len())?;
        let pickle = self.pickle;
        match pickle.node(value) {
            Some(Node::Dict(pairs)) => {
                self.pay(pairs.len())?;
                for &(key, value) in pairs {
                    if !matches!(value, Value::Node(_)) {
                        continue;
                    }
                    match key {
                        Value::Int(key) => self.enter(&key.to_string(), value, depth)?,
                        _ => {
                            if let Some(key) = pickle.text(key) {
                                self.enter(key, value, depth)?;
                            }
                        }
                    }
                }
            }
            Some(Node::List(values)) => self.numbered(values, depth)?,
            Some(Node::Tuple(values)) => self.numbered(values, depth)?,
            Some(Node::Call(..)) => return self.take(value),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn numbered(&mut self, values: &'a [Value], depth: usize) -> Result<(), Error> {
        self.pay(values.len())?;
        for (index, &value) in values.iter().enumerate() {
            if matches!(value, Value::Node(_)) {
                self.enter(&index.to_string(), value, depth)?;
            }
        }
        Ok(())
    }

    /// Visits what a key leads to.
    fn enter(&mut self, key: &str, value: Value, depth: usize) -> Result<(), Error> {
        if depth == DEEPEST {
            let expected = format_args!("dicts at most {DEEPEST} deep");
            return Err(self.source.refuse(Problem::new(expected, "deeper ones")));
        }
        let len = self.name.len();
        self.pay(key.len())?;
        if depth > 0 {
            self.name.push('.');
        }
        self.name.push_str(key);
        self.visit(value, depth + 1)?;
        self.name.truncate(len);
        Ok(())
    }

    /// Keeps a value that is a tensor, by the name of where we are.
    fn take(&mut self, value: Value) -> Result<bool, Error> {
        let name = self.name.clone();
        let refuse = |problem| self.source.refuse_tensor(&name, problem);
        let taken = || refuse(Problem::new("one tensor of this name", "two"));
        match rebuild::tensor(self.pickle, value).map_err(refuse)? {
            Found::NoTensor => return Ok(false),
            Found::Unread(kind) => {
                if self.contents.tensors.contains_key(&name)
                    || self.contents.unread.insert(name.clone(), kind).is_some()
                {
                    return Err(taken());
                }
            }
            Found::Dense(view) => {
                let tensor = view.place(self.archive).map_err(refuse)?;
                let axes = tensor.entry.shape.len();
                if self.contents.unread.contains_key(&name)
                    || self.contents.tensors.insert(name.clone(), tensor).is_some()
                {
                    return Err(taken());
                }
                self.pay(axes.saturating_mul(16))?;
            }
        }
        Ok(true)
    }

    fn pay(&mut self, bytes: usize) -> Result<(), Error> {
        match self.budget.checked_sub(bytes) {
            Some(rest) => self.budget = rest,
            None => {
                let expected = "names that a pickle of this length can spell";
                let problem = Problem::new(expected, "many more (dicts that repeat others)");
                return Err(self.source.refuse(problem));
            }
        }
        Ok(())
    }
}
