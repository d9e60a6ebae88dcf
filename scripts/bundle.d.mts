/** See bundle.mjs; rejects when the program cannot be bundled. */
export function bundleProgram(entry: string, outfile: string, options?: { readonly movable?: boolean }): Promise<void>
