//! What a pickle says, as data.

use crate::error::shorten;

/// A value, small as there may be millions: what holds others is a [`Node`], and what is named twice is
/// stored once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    /// Where in [`Pickle::texts`] it is.
    Text(u32),
    /// Of no use to a tensor: what it is, in words.
    Other(&'static &'static str),
    /// Where in [`Pickle::nodes`] it is.
    Node(u32),
}

/// A value that holds others, or stands for an object that only running code could make.
#[derive(Debug)]
pub(super) enum Node {
    List(Vec<Value>),
    Tuple(Box<[Value]>),
    Dict(Vec<(Value, Value)>),
    /// A function or a class, by its module and name: where in [`Pickle::texts`] they are.
    Global(u32, u32),
    /// What the writer keeps elsewhere, by what it calls it: of torch's, a storage.
    Persistent(Value),
    /// A function or a class and its arguments: where in [`Pickle::nodes`] they are. Nothing is called.
    Call(u32, u32),
}

/// A pickle that has been read.
#[derive(Debug)]
pub(super) struct Pickle<'p> {
    pub(super) nodes: Vec<Node>,
    pub(super) texts: Vec<&'p str>,
    pub(super) top: Value,
    /// How long it is, in bytes.
    pub(super) len: usize,
}

impl<'p> Pickle<'p> {
    pub(super) fn node(&self, value: Value) -> Option<&Node> {
        match value {
            Value::Node(index) => self.nodes.get(index as usize),
            _ => None,
        }
    }

    pub(super) fn tuple(&self, value: Value) -> Option<&[Value]> {
        match self.node(value)? {
            Node::Tuple(values) => Some(values),
            _ => None,
        }
    }

    pub(super) fn global(&self, value: Value) -> Option<(&'p str, &'p str)> {
        match *self.node(value)? {
            Node::Global(module, name) => {
                let text = |index: u32| self.texts.get(index as usize).copied();
                Some((text(module)?, text(name)?))
            }
            _ => None,
        }
    }

    pub(super) fn text(&self, value: Value) -> Option<&'p str> {
        match value {
            Value::Text(index) => self.texts.get(index as usize).copied(),
            _ => None,
        }
    }

    /// What a value is, in words for a message.
    pub(super) fn describe(&self, value: Value) -> String {
        let global = |value| {
            let (module, name) = self.global(value).unwrap_or_default();
            shorten(format_args!("{module}.{name}"))
        };
        match value {
            Value::None => "None".to_owned(),
            Value::Bool(x) => x.to_string(),
            Value::Int(x) => x.to_string(),
            Value::Text(_) => format!("`{}`", shorten(self.text(value).unwrap_or_default())),
            Value::Other(what) => (*what).to_owned(),
            Value::Node(_) => match self.node(value) {
                Some(Node::List(values)) => format!("a list of {}", values.len()),
                Some(Node::Tuple(values)) => format!("a tuple of {}", values.len()),
                Some(Node::Dict(pairs)) => format!("a dict of {}", pairs.len()),
                Some(Node::Global(..)) => global(value),
                Some(Node::Persistent(_)) => "a storage".to_owned(),
                Some(&Node::Call(function, _)) => {
                    format!("what {} makes", global(Value::Node(function)))
                }
                None => "nothing".to_owned(),
            },
        }
    }
}
