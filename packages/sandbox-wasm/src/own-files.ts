import { createRequire } from 'node:module'
import { dirname, extname, join } from 'node:path'

/**
 * Where a file of this folder lies, without its ending, as something that Node can run. It is looked up by the package's
 * name, because the code that asks may have been bundled into a file elsewhere.
 */
export function ownFile(name: string): string {
  const entry = packageEntry()
  return join(dirname(entry), 'runtimes', 'wasm', `${name}${extname(entry)}`)
}

/** The folder of the package, which holds what is not code. */
export function packageFolder(): string {
  return dirname(dirname(packageEntry()))
}

function packageEntry(): string {
  return createRequire(import.meta.url).resolve('@gantry/core')
}
