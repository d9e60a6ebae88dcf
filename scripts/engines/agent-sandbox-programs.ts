import { execFile, spawnSync } from 'node:child_process'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { cachedEngine } from './cache.ts'
import { installPackages } from './packages.ts'

/** A release of the controller that serves and stores v1beta1 of its groups. */
const version = 'v0.5.6'
const module = `sigs.k8s.io/agent-sandbox@${version}`
const name = 'agent-sandbox-controller'
/** Three minutes on a quiet machine. */
const buildMs = 2_400_000

interface AgentSandboxPrograms {
  readonly controller: string
  /** The folder of its definitions of resources. */
  readonly definitions: string
}

/** The controller of agent-sandbox and its definitions of resources, of one version, built once per user. */
export async function agentSandboxPrograms(): Promise<AgentSandboxPrograms> {
  const folder = await cachedEngine('agent-sandbox', version, build)
  return { controller: join(folder, name), definitions: join(folder, 'crds') }
}

/** `go install` would ask the registry for all versions of the module, which it does not always have. */
async function build(folder: string): Promise<void> {
  if (spawnSync('go', ['version'], { stdio: 'ignore' }).status !== 0) installPackages('golang-go')
  const { Dir } = JSON.parse(await go(folder, 'mod', 'download', '-json', module))
  await go(Dir, 'build', '-trimpath', '-ldflags=-s -w', '-o', join(folder, name), `./cmd/${name}`)
  cpSync(join(Dir, 'k8s/crds'), join(folder, 'crds'), { recursive: true })
}

async function go(cwd: string, ...args: readonly string[]): Promise<string> {
  const env = { ...process.env, CGO_ENABLED: '0', GOFLAGS: '', GOWORK: 'off' }
  const options = { cwd, env, timeout: buildMs }
  const { stdout } = await promisify(execFile)('go', args, options).catch((cause: { stderr?: string }) => {
    throw new Error(`go ${args.slice(0, 2).join(' ')} failed:\n${(cause.stderr ?? '').slice(-2_000)}`, { cause })
  })
  return stdout
}
