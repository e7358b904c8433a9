package operations

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/spf13/cobra"
)

// bucketKeys are the flags with the keys of a bucket. Secrets are in files: a command line shows in the list of
// processes and in the history of the shell.
type bucketKeys struct {
	access, secretFile, accountFile string
}

func (k *bucketKeys) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&k.access, "access-key", "", "the id of the access key, for S3")
	cmd.Flags().StringVar(&k.secretFile, "secret-key-file", "", "a file with the secret key, for S3; - reads standard input")
	cmd.Flags().StringVar(&k.accountFile, "service-account", "",
		"the key file of a service account, for Google Cloud Storage; - reads standard input")
	cmd.MarkFlagsRequiredTogether("access-key", "secret-key-file")
	cmd.MarkFlagsMutuallyExclusive("access-key", "service-account")
	cmd.MarkFlagsOneRequired("access-key", "service-account")
}

// read reads the files.
func (k *bucketKeys) read(stdin io.Reader) (client.BucketKeysInput, error) {
	if k.accountFile != "" {
		account, err := readSecret(stdin, k.accountFile)
		return client.BucketKeysInput{ServiceAccount: &account}, err
	}
	secret, err := readSecret(stdin, k.secretFile)
	return client.BucketKeysInput{AccessKey: &k.access, SecretKey: &secret}, err
}

// maxSecretFile bounds a file with a secret, in bytes.
const maxSecretFile = 64 << 10

func readSecret(stdin io.Reader, path string) (string, error) {
	from := stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer file.Close()
		from = file
	}
	text, err := io.ReadAll(io.LimitReader(from, maxSecretFile+1))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" || len(text) > maxSecretFile {
		return "", fmt.Errorf("%s must have a secret of up to %d bytes", path, maxSecretFile)
	}
	return secret, nil
}

func webhooksBucketCommand() *cobra.Command {
	keys := &bucketKeys{}
	cmd := &cobra.Command{
		Use:   "bucket URL",
		Short: "Deliver the videos of the account's completed jobs into a bucket of its own",
		Long: "Copies the video and the thumbnail of each job that completes into a folder of a bucket, with a description, job.json.\n" +
			"URL is s3://BUCKET/FOLDER/?region=…, s3://BUCKET/FOLDER/?endpoint=https://… or gs://BUCKET/FOLDER/. A test object is written\n" +
			"there first. See docs/users/webhooks.md.",
		Example: "  reelay webhooks bucket 's3://films/raw/?region=eu-central-1' --access-key AKIA… --secret-key-file secret.txt\n" +
			"  reelay webhooks bucket gs://films/raw/ --service-account key.json",
		Args: cobra.ExactArgs(1),
	}
	keys.addFlags(cmd)
	return new(connect.Call).Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		read, err := keys.read(cmd.InOrStdin())
		if err != nil {
			return nil, nil, err
		}
		made, err := c.CreateBucketEndpoint(ctx, args[0], read)
		if err != nil {
			return nil, nil, err
		}
		return made, output.Line("%s is enabled. A test object was written into the bucket", made.Id), nil
	})
}

func webhooksKeysCommand() *cobra.Command {
	keys := &bucketKeys{}
	cmd := &cobra.Command{
		Use: "keys ENDPOINT", Short: "Replace the keys of a bucket, after a test",
		Example: "  reelay webhooks keys whk_… --access-key AKIA… --secret-key-file secret.txt", Args: cobra.ExactArgs(1),
	}
	keys.addFlags(cmd)
	return (&connect.Call{Kind: "whk"}).Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		read, err := keys.read(cmd.InOrStdin())
		if err != nil {
			return nil, nil, err
		}
		endpoint, err := c.SetBucketKeys(ctx, args[0], read)
		return endpoint, output.Line("%s has new keys", args[0]), err
	})
}
