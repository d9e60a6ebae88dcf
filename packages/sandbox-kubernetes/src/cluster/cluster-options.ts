/**
 * Where a cluster is, and in which namespace sandboxes are. Beside the client, whose declarations need types of packages
 * that it does not install, so that a program that only names options compiles without them.
 */
export interface ClusterOptions {
  /** A kubeconfig file; the one that `kubectl` uses, or the account of the pod, when absent. */
  readonly kubeconfig?: string
  /** A context of the kubeconfig; its current one when absent. */
  readonly context?: string
  /** The namespace of the context, else `default`, when absent. */
  readonly namespace?: string
}
