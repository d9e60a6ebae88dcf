/** Letters, digits, `.`, `_` and `-`, as Docker and Kubernetes name theirs; never a path, never `..` or what begins so. */
const names = /^(?!\.\.|\.$)[A-Za-z0-9._-]{1,253}$/

/** Whether a secret that is kept in a file can have this name. */
export function isSecretName(name: string): boolean {
  return names.test(name)
}
