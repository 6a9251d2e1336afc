//! `metric('NAME')`: a metric with its own columns, a row for each trace; and `FROM NAME` of a name
//! that no table has.
//!
//! The columns are those that the query has of no trace at all, which costs milliseconds; the
//! metric is computed when the call is executed. A name without a table comes here by a scan that
//! DuckDB asks before it gives up (`duckdb_add_replacement_scan`).

#![allow(unsafe_code, reason = "DuckDB hands names and hosts over as pointers")]

use std::collections::VecDeque;
use std::error::Error as StdError;
use std::ffi::{CStr, c_char, c_void};
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow::array::RecordBatch;
use duckdb::Connection;
use duckdb::core::{DataChunkHandle, LogicalTypeHandle, LogicalTypeId};
use duckdb::ffi;
use duckdb::vtab::{
    BindInfo, InitInfo, TableFunctionInfo, VTab, record_batch_to_duckdb_data_chunk,
    to_duckdb_logical_type,
};

use crate::api::Data;
use crate::cli::metric_tables::{METRIC, metric_of, parameters};
use crate::error::{Error, Result};
use crate::extension::call::Call;
use crate::extension::host::Host;
use crate::registry::Registry;

/// Arguments by name that are no parameters of a metric.
const OPTIONS: [&str; 4] = ["trace", "data", "options", "token"];

/// The files of the program, for the names of metrics and their parameters.
fn registry() -> Option<&'static Registry> {
    static REGISTRY: OnceLock<Option<Registry>> = OnceLock::new();
    REGISTRY.get_or_init(|| Registry::load(None).ok()).as_ref()
}

/// Names that an argument may have.
fn names() -> &'static [&'static str] {
    static NAMES: OnceLock<Vec<&'static str>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let params = registry().map(parameters).unwrap_or_default();
        OPTIONS.into_iter().chain(params).collect()
    })
}

/// Registers the function.
///
/// # Errors
/// `sql` when DuckDB refuses.
pub fn register(connection: &Connection, host: &Arc<Host>) -> Result<()> {
    Ok(connection.register_table_function_with_extra_info::<MetricTable, _>(METRIC, host)?)
}

/// The function as DuckDB calls it.
struct MetricTable;

/// A call whose columns are known.
struct Bound {
    call: Call,
    name: String,
}

impl Bound {
    /// The data directory: that of the call, else the one that was opened.
    fn data(&self) -> Result<(Data, Vec<String>)> {
        let call = &self.call;
        let opened = call.host.opened();
        match opened.filter(|_| call.one("data").is_none()) {
            Some((folder, options)) => Ok((call.data_at(Some(folder))?, options)),
            None => Ok((call.data()?, Vec::new())),
        }
    }

    /// The words of the command line that ask for it.
    fn options(&self, mut options: Vec<String>) -> Vec<String> {
        options.extend(self.call.options(&[("trace", "--trace")]));
        for name in names().iter().filter(|name| !OPTIONS.contains(name)) {
            if let Some(value) = self.call.one(name) {
                options.push(format!("--param={name}={value}"));
            }
        }
        options
    }
}

impl VTab for MetricTable {
    type BindData = Bound;
    type InitData = Mutex<Option<VecDeque<RecordBatch>>>;

    fn bind(bind: &BindInfo) -> Result<Bound, Box<dyn StdError>> {
        // SAFETY: `register` gave this function a host, which lives as long as the function.
        let host = unsafe { &*bind.get_extra_info::<Arc<Host>>() };
        let call = Call::new(bind, names(), host.clone());
        let [name] = &call.arguments[0][..] else {
            return Err(Error::new("usage", "a metric is one name").into());
        };
        let bound = Bound { name: name.clone(), call };
        let (data, options) = bound.data()?;
        let options = bound.options(options);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        for field in data.metric_schema(&bound.name, &options)?.fields() {
            bind.add_result_column(field.name(), to_duckdb_logical_type(field.data_type())?);
        }
        Ok(bound)
    }

    fn init(_: &InitInfo) -> Result<Self::InitData, Box<dyn StdError>> {
        Ok(Mutex::default())
    }

    fn func(
        info: &TableFunctionInfo<Self>,
        output: &mut DataChunkHandle,
    ) -> Result<(), Box<dyn StdError>> {
        let mut rows = info.get_init_data().lock().unwrap_or_else(PoisonError::into_inner);
        if rows.is_none() {
            let bound = info.get_bind_data();
            let (data, options) = bound.data()?;
            let options = bound.options(options);
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            *rows = Some(data.metric_table(&bound.name, &options)?.into());
        }
        // A batch is one row of one trace.
        match rows.as_mut().and_then(VecDeque::pop_front) {
            Some(row) => record_batch_to_duckdb_data_chunk(&row, output)?,
            None => output.set_len(0),
        }
        Ok(())
    }

    fn parameters() -> Option<Vec<LogicalTypeHandle>> {
        Some(vec![LogicalTypeId::Any.into()])
    }

    fn named_parameters() -> Option<Vec<(String, LogicalTypeHandle)>> {
        let named = names().iter();
        Some(named.map(|name| ((*name).to_owned(), LogicalTypeId::Any.into())).collect())
    }
}

/// Has names that no table has looked for among the metrics.
///
/// # Safety
/// `database` must be open.
pub unsafe fn scan_names(database: ffi::duckdb_database) {
    // SAFETY: the caller says so; nothing is handed over that would have to be freed.
    unsafe {
        ffi::duckdb_add_replacement_scan(database, Some(replace), std::ptr::null_mut(), None);
    }
}

unsafe extern "C" fn replace(
    info: ffi::duckdb_replacement_scan_info,
    table: *const c_char,
    _: *mut c_void,
) {
    // SAFETY: DuckDB hands over a text that ends in NUL.
    let table = unsafe { CStr::from_ptr(table) };
    let is_metric = || {
        let name = table.to_str().ok()?;
        let file = metric_of(registry()?, name)?;
        // A version is part of the name.
        Some(if name.contains('@') { name.to_owned() } else { file.header.name.clone() })
    };
    // What panics must not cross into C; DuckDB then says that there is no such table.
    let Ok(Some(name)) = catch_unwind(std::panic::AssertUnwindSafe(is_metric)) else { return };
    // SAFETY: DuckDB copies the texts, and the value is destroyed here.
    unsafe {
        ffi::duckdb_replacement_scan_set_function_name(info, c"metric".as_ptr());
        let text = name.as_ptr().cast();
        let length = u64::try_from(name.len()).unwrap_or(0);
        let mut value = ffi::duckdb_create_varchar_length(text, length);
        ffi::duckdb_replacement_scan_add_parameter(info, value);
        ffi::duckdb_destroy_value(&mut value);
    }
}
