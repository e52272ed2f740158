package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/build"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/image"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/machine"
)

const productImage = "localhost/multicluster-scheduler:dev"

func newSetUp() *cobra.Command {
	return &cobra.Command{
		Use: "setup", Args: cobra.NoArgs,
		Short: "Install the Debian packages that clusters need and this machine lacks",
		Long: "setup installs, with apt-get, the packages that clusters need and this machine lacks, and prints their names.\n" +
			"Services that come with them are not left running: clusters start their own containerd.",
		RunE: func(cmd *cobra.Command, _ []string) error { return machine.SetUp(cmd.Context(), cmd.ErrOrStderr()) },
	}
}

func newBuild() *cobra.Command {
	return &cobra.Command{
		Use: "build [PROGRAM...]", Short: "Build the programs that clusters consist of into .local/bin",
		Long: "build builds all programs, or only those named, from their Go modules: etcd, kube-apiserver, kubectl, kubelet,\n" +
			"kube-controller-manager, kube-scheduler, kube-proxy and kwok. What is up to date is left alone. The first time takes\n" +
			"some minutes; later, and in other checkouts, Go's build cache makes it fast. It does not need root.",
		Example: "  clusters build etcd kube-apiserver kubectl   # what tests against bare API servers need",
		RunE: func(cmd *cobra.Command, names []string) error {
			f, err := here(cmd)
			if err != nil {
				return err
			}
			programs, err := build.Programs(f.Checkout)
			if err != nil {
				return err
			}
			if programs, err = build.Select(programs, names); err != nil {
				return err
			}
			return f.Build(cmd.Context(), programs...)
		},
	}
}

func newImage() *cobra.Command {
	return &cobra.Command{
		Use: "image", Args: cobra.NoArgs,
		Short: "Build the product's image from the Dockerfile",
		Long: "image builds " + productImage + " from the Dockerfile in the root of the checkout, with buildah, and prints the\n" +
			"path of its archive, .local/images/multicluster-scheduler.tar, which `clusters load` takes. The binaries that the\n" +
			"Dockerfile copies must have been built.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, unlock, err := locked(cmd)
			if err != nil {
				return err
			}
			defer unlock()
			archive := f.Local("images", "multicluster-scheduler.tar")
			made := image.Build{Reference: productImage, Context: f.Checkout, Storage: f.Local("buildah")}
			if err := made.WriteFile(cmd.Context(), archive); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), archive)
			return nil
		},
	}
}
