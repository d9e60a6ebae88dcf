import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { ToolError } from '@gantry/contract'
import type { LoadedConfig } from './config.ts'
import { loadConfig } from './load.ts'

/** A folder with files, removed at the end of the scope. Its `.git` stops the search for a configuration. */
export function folderWith(files: { readonly [name: string]: string }): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), 'gantry-config-'))
  mkdirSync(join(path, '.git'))
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(path, name)), { recursive: true })
    writeFileSync(join(path, name), text)
  }
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

/** Loads a configuration from a JSON file. */
export async function load(config: object): Promise<LoadedConfig> {
  using folder = folderWith({ 'gantry.config.json': JSON.stringify(config) })
  return await loadConfig({ folder: folder.path, environment: {}, signal: new AbortController().signal })
}

/** The paths of the issues that a configuration is refused with. */
export async function refusedPaths(config: object): Promise<readonly string[]> {
  const error = await load(config).then(
    () => assert.fail('it was accepted'),
    (thrown: unknown) => thrown,
  )
  assert.ok(ToolError.is(error) && error.code === 'CONFIG_INVALID', String(error))
  return (error.details?.issues ?? []).map(({ path }) => path)
}
