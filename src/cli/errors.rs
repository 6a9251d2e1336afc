//! The errors of a command: all that can be found, not the first.

use crate::error::Error;

/// Errors in the order in which they are printed.
#[derive(Debug, Default)]
pub struct Errors(pub Vec<Error>);

impl Errors {
    /// Success where there are none.
    ///
    /// # Errors
    /// The errors themselves.
    pub fn result(self) -> Result<(), Self> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl From<Error> for Errors {
    fn from(error: Error) -> Self {
        Self(vec![error])
    }
}

impl From<Vec<Error>> for Errors {
    fn from(errors: Vec<Error>) -> Self {
        Self(errors)
    }
}
