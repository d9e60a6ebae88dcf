import { execFile, spawnSync } from 'node:child_process'
import { promisify } from 'node:util'
import { cachedEngine } from './cache.ts'
import { installPackages } from './packages.ts'

/** The two generations of the Python SDK of MCP that clients are built on. */
export const pythonMcpVersions = ['1.30.0', '2.3.0'] as const

/** Timeout for installing about 30 packages, also from a slow registry. */
const installMs = 600_000
const python = '/usr/bin/python3'

/** The folder for PYTHONPATH that holds this version of the SDK, installed once for the user. */
export async function pythonMcp(version: string): Promise<string> {
  return cachedEngine('python-mcp', version, (folder) => install(version, folder))
}

async function install(version: string, folder: string): Promise<void> {
  if (!hasPip()) installPackages('python3-pip')
  const flags = ['-m', 'pip', 'install', '--quiet', '--no-input', '--disable-pip-version-check', '--target', folder]
  const wanted = `mcp==${version}`
  await promisify(execFile)(python, [...flags, wanted], { timeout: installMs }).catch((cause: { stderr?: string }) => {
    throw new Error(`pip could not install ${wanted}:\n${(cause.stderr ?? '').slice(-2_000)}`, { cause })
  })
}

function hasPip(): boolean {
  return spawnSync(python, ['-m', 'pip', '--version'], { stdio: 'ignore' }).status === 0
}
