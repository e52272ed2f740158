package cli

import (
	"cmp"
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
		Long: "setup installs, with apt-get, the packages that clusters need and this machine lacks. It prints\n" +
			"their names. It stops the services that come with them, because each cluster starts its own\n" +
			"containerd.",
		RunE: func(cmd *cobra.Command, _ []string) error { return machine.SetUp(cmd.Context(), cmd.ErrOrStderr()) },
	}
}

func newBuild() *cobra.Command {
	return &cobra.Command{
		Use: "build [PROGRAM...]", Short: "Build the programs that clusters consist of into .local/bin",
		Long: "build builds all programs, or only those named, from their Go modules: etcd, kube-apiserver,\n" +
			"kubectl, kubelet, kube-controller-manager, kube-scheduler, kube-proxy, coredns and kwok. It skips\n" +
			"programs that are up to date. The first build takes some minutes. Go's build cache makes later builds\n" +
			"fast, in other checkouts too. The command does not need root.",
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
	var context, reference, archive string
	cmd := &cobra.Command{
		Use: "image", Args: cobra.NoArgs,
		Short: "Build the product's image from the Dockerfile",
		Long: "image builds " + productImage + " from the Dockerfile in the root of the checkout, with buildah.\n" +
			"It prints the path of the archive, .local/images/multicluster-scheduler.tar, for `clusters load`.\n" +
			"The binaries that the Dockerfile copies must exist.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, unlock, err := locked(cmd)
			if err != nil {
				return err
			}
			defer unlock()
			made := image.Build{
				Reference: reference, Context: cmp.Or(context, f.Checkout), Storage: f.Local("buildah"),
			}
			path := f.Local("images", archive)
			if err := made.WriteFile(cmd.Context(), path); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), path)
			return nil
		},
	}
	cmd.Flags().StringVar(&context, "context", "", "folder of the Dockerfile (default: the checkout)")
	cmd.Flags().StringVar(&reference, "reference", productImage, "name and tag of the image")
	cmd.Flags().StringVar(&archive, "archive", "multicluster-scheduler.tar", "name of the archive in .local/images")
	return cmd
}
