import { spawn, spawnSync } from 'node:child_process'
import type { DockerServer } from '../scripts/engines/docker.ts'

/** What Gantry's containers are compared with. */
export interface ContainerPeers {
  readonly measurements: readonly { readonly name: string; run(): Promise<void> }[]
  /** Client and engine. */
  readonly version: string
  /** What could be compared with and is not installed. */
  readonly absent: readonly string[]
}

const code = ['/usr/bin/python3', '-c', 'print(6*7)'] as const

/** The command-line client of the engine, a container for `docker exec`, and sandboxes for judges where they are installed. */
export async function containerPeers({ socket }: DockerServer, image: string): Promise<ContainerPeers> {
  const host = ['-H', `unix://${socket}`]
  const plain = ['--network', 'none', image]
  const keeper = 'gantry-bench-exec'
  await ended('docker', [...host, 'run', '-d', '--name', keeper, ...plain, '/usr/bin/sleep', '86400'])
  const installed = judges.filter(({ name }) => spawnSync(name, ['--version'], { stdio: 'ignore' }).error === undefined)
  return {
    measurements: [
      ...['runc', 'runsc'].map((oci) => ({
        name: `\`docker run --rm\`, ${oci}`,
        run: () => ended('docker', [...host, 'run', '--rm', '--runtime', oci, ...plain, ...code]),
      })),
      { name: '`docker exec`, runc', run: () => ended('docker', [...host, 'exec', keeper, ...code]) },
      ...installed.map(({ name, run }) => ({ name: `${name}, cold`, run })),
    ],
    version: versionOf(host),
    absent: judges.filter((judge) => !installed.includes(judge)).map(({ name }) => name),
  }
}

/** Sandboxes by namespaces without an engine, as Piston and judges of contests use them. */
const judges = [
  {
    name: 'isolate',
    async run(): Promise<void> {
      await ended('isolate', ['--init'])
      await ended('isolate', ['--silent', '--run', '--', ...code])
      await ended('isolate', ['--cleanup'])
    },
  },
  {
    name: 'nsjail',
    run: () => {
      const folders = ['/usr', '/lib', '/lib64', '/bin'].flatMap((folder) => ['-R', folder])
      const limits = ['--user', '99999', '--group', '99999', '--disable_proc', '-Mo', '-Q', '-t', '30']
      return ended('nsjail', [...limits, ...folders, '-T', '/tmp', '--', ...code])
    },
  },
]

function versionOf(host: readonly string[]): string {
  const format = 'client {{.Client.Version}}, engine {{.Server.Version}}'
  return spawnSync('docker', [...host, 'version', '--format', format], { encoding: 'utf8' }).stdout.trim()
}

function ended(command: string, args: readonly string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    let said = ''
    child.stdout.resume()
    child.stderr.on('data', (piece: Buffer) => {
      said = (said + piece.toString()).slice(-1_000)
    })
    child.on('error', reject)
    child.on('close', (status) =>
      status === 0 ? resolve() : reject(new Error(`${command} ended with ${status}: ${said}`)),
    )
  })
}
