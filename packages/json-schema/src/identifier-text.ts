const identifier = /^[A-Za-z_$][A-Za-z0-9_$]{0,199}$/

/** Whether a name can stand bare as a member in TypeScript; what cannot is quoted. */
export function isIdentifier(name: string): boolean {
  return identifier.test(name)
}
