import { execFile, spawnSync } from 'node:child_process'
import { cpSync, rmSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { cachedEngine } from './cache.ts'
import { installPackages } from './packages.ts'

/** The version of Kubernetes, and that of its libraries, which its own module names by folders of its repository. */
const version = 'v1.34.1'
const libraries = 'v0.34.1'
const programs = ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kubelet']
/** Five minutes on a quiet machine. */
const buildMs = 2_400_000
/** As Kubernetes builds its own releases: small and without C. */
const linking = ['-mod=mod', '-trimpath', `-ldflags=-s -w -X k8s.io/component-base/version.gitVersion=${version}`]

/** The folder of the four programs of Kubernetes, built once per user from Go's module registry. */
export function kubernetesPrograms(): Promise<string> {
  return cachedEngine('kubernetes', version, buildPrograms)
}

async function buildPrograms(folder: string): Promise<void> {
  if (spawnSync('go', ['version'], { stdio: 'ignore' }).status !== 0) installPackages('golang-go')
  const source = await mkdtemp(join(tmpdir(), 'gantry-kubernetes-source-'))
  try {
    const { Dir } = JSON.parse(await go(source, 'mod', 'download', '-json', `k8s.io/kubernetes@${version}`))
    cpSync(Dir, source, { recursive: true })
    spawnSync('chmod', ['-R', 'u+w', source])
    for (const name of ['vendor', 'go.work', 'go.work.sum'])
      rmSync(join(source, name), { recursive: true, force: true })
    await go(source, 'mod', 'edit', ...moduleEdits(readModule(await go(source, 'mod', 'edit', '-json'))))
    // Some packages of its tests are not in the registry; the programs do not need them.
    await go(source, 'mod', 'tidy', '-e')
    for (const program of programs) {
      console.error(`gantry: building ${program} …`)
      await go(source, 'build', ...linking, '-o', join(folder, program), `./cmd/${program}`)
    }
  } finally {
    await rm(source, { recursive: true, force: true })
  }
}

interface GoModule {
  readonly Require: readonly { readonly Path: string; readonly Version: string }[]
  readonly Replace: readonly { readonly Old: { readonly Path: string; readonly Version?: string } }[] | null
}

function readModule(text: string): GoModule {
  return JSON.parse(text)
}

/** Takes the libraries from the registry instead of from folders of the repository, which the module does not have. */
function moduleEdits({ Require, Replace }: GoModule): readonly string[] {
  const dropped = (Replace ?? []).map(
    ({ Old }) => `-dropreplace=${Old.Path}${Old.Version === undefined ? '' : `@${Old.Version}`}`,
  )
  const required = Require.filter(({ Path, Version }) => Path.startsWith('k8s.io/') && Version === 'v0.0.0')
  return [...dropped, ...required.map(({ Path }) => `-require=${Path}@${libraries}`)]
}

async function go(cwd: string, ...args: readonly string[]): Promise<string> {
  const env = { ...process.env, CGO_ENABLED: '0', GOFLAGS: '', GOWORK: 'off' }
  const options = { cwd, env, timeout: buildMs, maxBuffer: 64 * 2 ** 20 }
  const { stdout } = await promisify(execFile)('go', args, options).catch((cause: { stderr?: string }) => {
    throw new Error(`go ${args.slice(0, 2).join(' ')} failed:\n${(cause.stderr ?? '').slice(-2_000)}`, { cause })
  })
  return stdout
}
