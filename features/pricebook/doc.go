// Package pricebook keeps what hosted providers charge for videos: versions of prices that operators import, by which the
// ledger has the fee of each provider job. The prices of machines are those of their pools, which packages fleet and prices
// keep.
package pricebook
