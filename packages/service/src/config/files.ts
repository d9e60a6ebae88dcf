import { resolve } from 'node:path'

/** The same settings, in which every key that ends in `File` names a path from the folder of the configuration. */
export function withFiles<T extends object>(settings: T, folder: string): T {
  const entries = Object.entries(settings).map(([key, value]) =>
    key.endsWith('File') && typeof value === 'string' ? [key, resolve(folder, value)] : [key, value],
  )
  return Object.fromEntries(entries) as T
}
