// Package image makes container images of one static program without any container tool. An image is an archive in the
// format of `docker save`, with one layer, a configuration and a manifest. Equal input gives equal bytes.
package image
