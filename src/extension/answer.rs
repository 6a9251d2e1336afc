//! Table functions of fixed columns, which run when they are executed, and once.

#![allow(unsafe_code, reason = "DuckDB keeps the host of a function behind a pointer")]

use std::error::Error as StdError;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use duckdb::Connection;
use duckdb::core::{DataChunkHandle, LogicalTypeHandle, LogicalTypeId};
use duckdb::vtab::{
    BindInfo, InitInfo, TableFunctionInfo, VTab, record_batch_to_duckdb_data_chunk,
    to_duckdb_logical_type,
};

use crate::api::Column;
use crate::error::Result;
use crate::extension::call::Call;
use crate::extension::host::Host;

/// Rows of a chunk, as DuckDB has them.
const CHUNK: usize = 2048;

/// A table function.
pub trait Function: Sized + Send + Sync + 'static {
    /// Its name.
    const NAME: &'static str;
    /// Number of arguments by position: texts, or lists of texts.
    const ARGUMENTS: usize;
    /// Names of arguments.
    const NAMED: &'static [&'static str];
    /// Columns of its rows.
    const COLUMNS: &'static [Column];

    /// The rows of a call.
    ///
    /// # Errors
    /// Those of the function.
    fn answer(call: &Call) -> Result<RecordBatch>;
}

/// Registers a function, whose calls know the host.
///
/// # Errors
/// `sql` when DuckDB refuses.
pub fn register<F: Function>(connection: &Connection, host: &Arc<Host>) -> Result<()> {
    Ok(connection.register_table_function_with_extra_info::<Table<F>, _>(F::NAME, host)?)
}

/// A function as DuckDB calls it.
struct Table<F>(PhantomData<F>);

/// The rows of a call that are left; none before it ran.
#[derive(Default)]
struct Rows {
    left: Option<RecordBatch>,
}

impl<F: Function> VTab for Table<F> {
    type BindData = Call;
    type InitData = Mutex<Rows>;

    fn bind(bind: &BindInfo) -> Result<Call, Box<dyn StdError>> {
        for (name, ty) in F::COLUMNS {
            bind.add_result_column(name, to_duckdb_logical_type(&ty.arrow())?);
        }
        // SAFETY: `register` gave this function a host, which lives as long as the function.
        let host = unsafe { &*bind.get_extra_info::<Arc<Host>>() };
        Ok(Call::new(bind, F::NAMED, host.clone()))
    }

    fn init(_: &InitInfo) -> Result<Self::InitData, Box<dyn StdError>> {
        Ok(Mutex::default())
    }

    fn func(
        info: &TableFunctionInfo<Self>,
        output: &mut DataChunkHandle,
    ) -> Result<(), Box<dyn StdError>> {
        let mut rows = info.get_init_data().lock().unwrap_or_else(PoisonError::into_inner);
        let left = match rows.left.take() {
            Some(left) => left,
            None => F::answer(info.get_bind_data())?,
        };
        let count = left.num_rows().min(CHUNK);
        record_batch_to_duckdb_data_chunk(&left.slice(0, count), output)?;
        rows.left = Some(left.slice(count, left.num_rows() - count));
        Ok(())
    }

    fn parameters() -> Option<Vec<LogicalTypeHandle>> {
        Some((0..F::ARGUMENTS).map(|_| LogicalTypeId::Any.into()).collect())
    }

    fn named_parameters() -> Option<Vec<(String, LogicalTypeHandle)>> {
        let named = F::NAMED.iter();
        Some(named.map(|name| ((*name).to_owned(), LogicalTypeId::Any.into())).collect())
    }
}
