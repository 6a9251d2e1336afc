//! Which tasks of a step a command line means.

use crate::engine::Share;

/// What is wrong with a text that is no share.
const SHARES: &str = "write I/M with I below M: 0/4 to 3/4 are all of four shares";

/// The tasks of a step that one process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The task of this number.
    One(usize),
    /// Of so many shares of all tasks, the one of this number.
    Share {
        /// The number of the share, from 0 on.
        i: usize,
        /// How many shares there are.
        of: usize,
    },
}

impl Which {
    /// `N` or `I/M`.
    ///
    /// # Errors
    /// A sentence, where the text is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            text.parse::<usize>().map_err(|_| format!("{text:?} is no number; write N or I/M"))
        };
        let Some((i, of)) = text.split_once('/') else { return number(text).map(Self::One) };
        let (i, of) = (number(i)?, number(of)?);
        if i < of { Ok(Self::Share { i, of }) } else { Err(SHARES.to_owned()) }
    }

    /// `I/M` alone.
    ///
    /// # Errors
    /// A sentence, where the text is none.
    pub fn share(text: &str) -> Result<Share, String> {
        match Self::parse(text)? {
            Self::Share { i, of } => Ok(Share { place: i, of }),
            Self::One(_) => Err(SHARES.to_owned()),
        }
    }
}
