// Package images has the files of the container images, and their tests. docs/operators/images.md describes them.
package images
