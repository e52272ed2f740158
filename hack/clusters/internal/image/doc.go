// Package image makes container images of one static program without any container tool: an archive, in the format that
// `docker save` made common, of one layer, a configuration and a manifest. Equal input gives equal bytes.
package image
