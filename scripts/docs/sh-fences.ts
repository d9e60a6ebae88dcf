import { existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { differences, runChild } from '../child.ts'
import type { Fence } from './page.ts'

const command = /^(?:npx )?gantry\b/

/** Whether a shell fence has gantry commands and is followed by their expected output. */
export function showsOutput({ language, marks, text, next }: Fence): boolean {
  if (language !== 'sh' || marks.includes('no-run') || next === undefined) return false
  if (!['json', 'text'].includes(next.language) || next.marks.includes('no-run')) return false
  return text.split('\n').every((line) => line.trim() === '' || line.startsWith('#') || command.test(line))
}

/** Runs the commands of a fence with this repository's gantry and compares their output. */
export async function shellFault(root: string, folder: string, fence: Fence): Promise<string | undefined> {
  const lines = fence.text.split('\n').map((line) => line.replace(/^npx /, ''))
  const path = [shim(root, folder), process.env.PATH].join(delimiter)
  const cache = join(root, 'node_modules', '.cache')
  const env = { ...process.env, PATH: path, XDG_CACHE_HOME: cache, NO_COLOR: '1' }
  const { stdout, stderr } = await runChild('sh', ['-c', lines.join('\n')], { cwd: folder, env })
  const expected = fence.next?.text ?? ''
  const text = stdout.replace(/\n$/, '')
  if (fence.next?.language === 'json' && sameJson(expected, text)) return undefined
  // A terminal shows stderr too; a page may show either.
  if ([text, `${stderr}${text}`.replace(/\n$/, '')].includes(expected)) return undefined
  const shown = differences(expected, text === '' ? stderr.replace(/\n$/, '') : text)
  return [`${fence.page}:${fence.line} prints something else than the page says`, ...shown].join('\n')
}

/**
 * A folder with a `gantry` that runs this repository's command on the current Node. It is written once and renamed into
 * place, because a program that is being written cannot be started by another fence ("Text file busy").
 */
function shim(root: string, folder: string): string {
  const bin = join(folder, 'bin')
  const file = join(bin, 'gantry')
  if (existsSync(file)) return bin
  mkdirSync(bin, { recursive: true })
  const target = join(root, 'packages', 'gantry', 'bin', 'gantry.mjs')
  writeFileSync(`${file}.new`, `#!/bin/sh\nexec '${process.execPath}' '${target}' "$@"\n`, { mode: 0o755 })
  renameSync(`${file}.new`, file)
  return bin
}

/** Fields that differ from run to run. */
const volatile: ReadonlySet<string> = new Set(['callId', 'chainId', 'startedAt', 'durationMs', 'wallMs', 'score'])

/** Compares JSON, one document or one per line, without the fields that differ from run to run. */
function sameJson(expected: string, actual: string): boolean {
  try {
    return isDeepStrictEqual(documents(expected), documents(actual))
  } catch {
    return false
  }
}

function documents(text: string): unknown[] {
  const still = (key: string, value: unknown): unknown => (volatile.has(key) ? undefined : value)
  try {
    return [JSON.parse(text, still)]
  } catch {
    return text.split('\n').map((line): unknown => JSON.parse(line, still))
  }
}
