import { join, resolve } from 'node:path'
import type { RuntimeOptions } from '@gantry/tools'
import { dataFolder } from './service-settings.ts'

/** Lists of packages, their lock files and their folder, relative to the configuration. */
export function packageOptions(
  { python, node, packagesFolder }: RuntimeOptions,
  folder: string,
  environment: NodeJS.ProcessEnv,
): Pick<RuntimeOptions, 'python' | 'node' | 'packagesFolder'> {
  if (python === undefined && node === undefined) return {}
  const at = (file: string): string => resolve(folder, file)
  const built = packagesFolder === undefined ? join(dataFolder(folder, environment), 'packages') : at(packagesFolder)
  return {
    packagesFolder: built,
    ...(python === undefined
      ? {}
      : { python: { packages: pythonFile(python, at), lock: lockOf('python', python, at) } }),
    ...(node === undefined ? {} : { node: { packages: nodeFile(node, at), lock: lockOf('node', node, at) } }),
  }
}

type At = (file: string) => string

function pythonFile({ packages }: NonNullable<RuntimeOptions['python']>, at: At) {
  return 'requirements' in packages ? { requirements: at(packages.requirements) } : packages
}

function nodeFile({ packages }: NonNullable<RuntimeOptions['node']>, at: At) {
  return 'manifest' in packages ? { manifest: at(packages.manifest) } : packages
}

function lockOf(kind: string, { lock }: { readonly lock?: string }, at: At): string {
  return at(lock ?? `gantry.${kind}.lock`)
}
