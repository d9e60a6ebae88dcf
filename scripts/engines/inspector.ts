import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { cachedEngine } from './cache.ts'

export const inspectorVersion = '2.12.0'

/** Timeout for installing about 100 packages, also from a slow registry. */
const installMs = 600_000

/**
 * The path of the MCP inspector, installed once per user. It is not a dependency of the repository, because it includes
 * a web application and its bundler. Rejects with npm's output when the installation fails.
 */
export async function mcpInspector(): Promise<string> {
  const folder = await cachedEngine('mcp-inspector', inspectorVersion, install)
  return join(folder, 'node_modules', '.bin', 'mcp-inspector')
}

async function install(folder: string): Promise<void> {
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n')
  const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
  const wanted = `@modelcontextprotocol/inspector@${inspectorVersion}`
  const options = { cwd: folder, timeout: installMs }
  await promisify(execFile)('npm', ['install', ...flags, wanted], options).catch((cause: { stderr?: string }) => {
    throw new Error(`npm could not install ${wanted}:\n${(cause.stderr ?? '').slice(-2_000)}`, { cause })
  })
}
