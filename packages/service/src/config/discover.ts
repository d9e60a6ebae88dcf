import { statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { configError } from './problem.ts'

export const configNames: readonly string[] = ['ts', 'mjs', 'js', 'json', 'yaml', 'yml'].map(
  (extension) => `gantry.config.${extension}`,
)

/** The file to use: the named one, that of GANTRY_CONFIG, or the nearest one here or above. */
export function findConfig(
  named: string | undefined,
  environment: NodeJS.ProcessEnv,
  folder: string,
): string | undefined {
  const variable = environment.GANTRY_CONFIG
  if (named !== undefined) return existing(resolve(folder, named), '--config')
  if (variable !== undefined && variable !== '') return existing(resolve(folder, variable), 'GANTRY_CONFIG')
  return nearestConfig(resolve(folder))
}

function existing(file: string, source: string): string {
  if (isFile(file)) return file
  const named = `${source} names ${file}, which`
  try {
    statSync(file)
  } catch (error) {
    const missing = (error as NodeJS.ErrnoException).code === 'ENOENT'
    throw missing
      ? configError(file, `${named} does not exist.`, [])
      : configError(file, `${named} cannot be read.`, [], error)
  }
  throw configError(file, `${named} is not a file.`, [])
}

/** Looks upwards as far as the top of the repository, or of the filesystem. */
function nearestConfig(start: string): string | undefined {
  for (let folder = start; ; folder = dirname(folder)) {
    const found = configNames.map((name) => join(folder, name)).filter(isFile)
    const [first, second] = found
    if (first !== undefined && second !== undefined) {
      throw configError(undefined, `There is more than one configuration: ${found.join(' and ')}. Keep one.`, [])
    }
    if (first !== undefined) return owned(first)
    if (statSync(join(folder, '.git'), { throwIfNoEntry: false }) !== undefined) return undefined
    if (dirname(folder) === folder) return undefined
  }
}

/** A configuration runs as code: one that another user left in a shared folder must be named to be used. */
function owned(file: string): string {
  const me = process.getuid?.()
  const owner = statSync(file).uid
  if (me === undefined || owner === me || owner === 0) return file
  throw configError(
    file,
    `${file} belongs to another user (uid ${owner}). Name it with --config to use it all the same.`,
    [],
  )
}

function isFile(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isFile() === true
  } catch {
    return false
  }
}
