// Package catalogue knows the models that jobs can name, and the aliases that spread jobs over
// models. It reads them from YAML and from rows of the database, validates the parameters of
// jobs, and estimates the work. Operations use an immutable Snapshot.
package catalogue
