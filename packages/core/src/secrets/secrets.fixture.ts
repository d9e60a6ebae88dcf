import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import type { SecretRequest } from './secret.ts'

/** A folder that is removed after the tests of the file. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-secrets-'))
  after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

export const request: SecretRequest = {
  tool: 'math:add:1.0.0',
  identity: { principal: 'alice', tenant: 'acme', permissions: [] },
  signal: new AbortController().signal,
}
