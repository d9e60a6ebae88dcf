import { accessSync, constants, statSync } from 'node:fs'
import { delimiter, isAbsolute, join, resolve } from 'node:path'
import type { McpSettings } from './settings.ts'

/** Why the program of a server cannot be started, found without starting it; undefined when it is there. */
export function missingProgram({ location }: McpSettings): string | undefined {
  if (location.kind !== 'program') return undefined
  const { command, cwd = '.', env } = location
  const [program] = command
  if (statSync(cwd, { throwIfNoEntry: false })?.isDirectory() !== true) return `starts in ${cwd}, which is not a folder`
  const path = env.PATH ?? process.env.PATH ?? ''
  const places = /[/\\]/.test(program)
    ? [isAbsolute(program) ? program : resolve(cwd, program)]
    : path.split(delimiter).map((folder) => join(resolve(cwd, folder), program))
  // The endings of programs on Windows are not searched.
  if (process.platform === 'win32' || places.some(isProgram)) return undefined
  return `starts the program ${program}, which is ${places.length === 1 ? 'not there or not executable' : 'not on the PATH'}`
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return statSync(file).isFile()
  } catch {
    return false
  }
}
