import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { cachedEngine } from './cache.ts'

/** Debian's `lxc`, unpacked into the cache and not installed, because its package starts a service and a bridge. */
const version = 'debian-1'
const packages = ['lxc', 'liblxc1', 'liblxc-common']
const libraries = 'usr/lib/x86_64-linux-gnu'

/** What the machine lacks for LXC; empty when it can run. */
export function missingLxc(): readonly string[] {
  const why = '(the runtime proxmox_lxc)'
  if (process.getuid?.() !== 0) return [`lxc ${why}: it needs root`]
  if (process.arch !== 'x64') return [`lxc ${why}: its test needs x64`]
  return ['apt-get', 'dpkg-deb', 'ip'].flatMap((name) =>
    spawnSync('sh', ['-c', `command -v ${name}`]).status === 0 ? [] : [`${name} ${why}: not installed`],
  )
}

/** The folder of Debian's LXC, as the root of a system. */
export function lxcPrograms(): Promise<string> {
  return cachedEngine('lxc', version, async (folder) => {
    const work = mkdtempSync(join(tmpdir(), 'gantry-lxc-'))
    try {
      run('apt-get', ['-qq', '-o', 'APT::Sandbox::User=root', 'download', ...packages], work)
      for (const file of spawnSync('sh', ['-c', 'ls *.deb'], { cwd: work, encoding: 'utf8' })
        .stdout.split('\n')
        .filter(Boolean))
        run('dpkg-deb', ['-x', join(work, file), folder])
    } finally {
      rmSync(work, { recursive: true, force: true })
    }
  })
}

/** A container as Proxmox hands it to LXC. */
export interface LxcContainer {
  readonly vmid: number
  readonly hostname: string
  readonly memory: number
  readonly cpulimit: number
  readonly hardware: string
}

/** Containers of plain LXC, with the settings that Proxmox writes for unprivileged ones. */
export interface LxcHost {
  /** Mounts the root file system of a clone, a layer over the template, and returns where. */
  mount(vmid: number): string
  start(container: LxcContainer): Promise<void>
  isRunning(vmid: number): boolean
  /** Kills everything in it. */
  stop(vmid: number): void
  destroy(vmid: number): void
}

export interface LxcSettings {
  /** From `lxcPrograms`. */
  readonly programs: string
  readonly folder: string
  /** The root file system of the template, whose files belong to the mapped uids. */
  readonly template: string
  readonly bridge: string
  /** Begins the names of containers, also among control groups. */
  readonly prefix: string
}

/** In Debian's files it names an absolute place. */
function common({ programs }: LxcSettings, name: string): string {
  const text = readFileSync(join(programs, 'usr/share/lxc/config', name), 'utf8')
  return text.replaceAll('/usr/share/lxc', join(programs, 'usr/share/lxc'))
}

export function environment(programs: string): NodeJS.ProcessEnv {
  const path = `${join(programs, 'usr/bin')}:/usr/sbin:/usr/bin:/sbin:/bin`
  return { PATH: path, LD_LIBRARY_PATH: join(programs, libraries) }
}

export function createLxcHost(settings: LxcSettings): LxcHost {
  const { programs, folder, template, bridge, prefix } = settings
  const env = environment(programs)
  const paths = join(folder, 'lxc')
  const nameOf = (vmid: number): string => `${prefix}-${vmid}`
  const own = (vmid: number, ...rest: readonly string[]): string => join(folder, 'volumes', String(vmid), ...rest)
  const merged = (vmid: number): string => own(vmid, 'merged')
  mkdirSync(paths, { recursive: true })
  const lxc = (program: string, args: readonly string[]) =>
    spawnSync(program, ['-P', paths, ...args], { env, encoding: 'utf8' })
  const unmount = (vmid: number): void => void spawnSync('umount', [merged(vmid)], { stdio: 'ignore' })
  const isRunning = (vmid: number): boolean => {
    try {
      const pid = readFileSync(own(vmid, 'pid'), 'utf8').trim()
      return (
        /\) [^ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'latin1')) &&
        readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(nameOf(vmid))
      )
    } catch {
      return false
    }
  }
  return {
    isRunning,
    mount(vmid) {
      for (const name of ['upper', 'work', 'merged', 'mount']) mkdirSync(own(vmid, name), { recursive: true })
      run('chown', ['100000:100000', own(vmid, 'upper')])
      const options = `lowerdir=${template},upperdir=${own(vmid, 'upper')},workdir=${own(vmid, 'work')}`
      unmount(vmid)
      run('mount', ['-t', 'overlay', 'overlay', '-o', options, merged(vmid)])
      return merged(vmid)
    },
    async start({ vmid, hostname, memory, cpulimit, hardware }) {
      const [config, log, pid] = [own(vmid, 'config'), own(vmid, 'log'), own(vmid, 'pid')]
      rmSync(pid, { force: true })
      const lines = [
        common(settings, 'common.conf').replace(/^lxc\.include.*$/gm, ''),
        common(settings, 'userns.conf').replace(/^lxc\.include.*$/gm, ''),
        'lxc.arch = amd64',
        'lxc.apparmor.profile = unconfined',
        'lxc.mount.auto = sys:mixed',
        'lxc.monitor.unshare = 1',
        'lxc.idmap = u 0 100000 65536',
        'lxc.idmap = g 0 100000 65536',
        'lxc.console.path = none',
        'lxc.tty.max = 0',
        'lxc.environment = TERM=linux',
        `lxc.uts.name = ${hostname}`,
        `lxc.cgroup.memory.limit_in_bytes = ${memory}M`,
        'lxc.cgroup.cpu.cfs_period_us = 100000',
        `lxc.cgroup.cpu.cfs_quota_us = ${Math.floor(cpulimit * 100_000)}`,
        `lxc.rootfs.path = ${merged(vmid)}`,
        `lxc.rootfs.mount = ${own(vmid, 'mount')}`,
        'lxc.net.0.type = veth',
        `lxc.net.0.link = ${bridge}`,
        'lxc.net.0.name = eth0',
        `lxc.net.0.hwaddr = ${hardware}`,
      ]
      writeFileSync(config, `${lines.join('\n')}\n`)
      // Not a child that ends with the server: on a node each container is a service of its own.
      const child = spawn(
        'lxc-start',
        ['-P', paths, '-n', nameOf(vmid), '-f', config, '-F', '-p', pid, '-o', log, '-l', 'ERROR'],
        {
          env,
          cwd: folder,
          detached: true,
          stdio: 'ignore',
        },
      )
      child.unref()
      const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
      void ended.then(() => unmount(vmid))
      const waiting = spawn('lxc-wait', ['-P', paths, '-n', nameOf(vmid), '-s', 'RUNNING', '-t', '20'], {
        env,
        stdio: 'ignore',
      })
      const running = new Promise<void>((resolve) => waiting.once('exit', () => resolve()))
      await Promise.race([ended, running])
      if (isRunning(vmid)) return
      const text = existsSync(log) ? readFileSync(log, 'utf8').trim().split('\n').at(0) : ''
      throw new Error(`startup for container '${vmid}' failed: ${text}`)
    },
    stop(vmid) {
      lxc('lxc-stop', ['-k', '-n', nameOf(vmid)])
    },
    destroy(vmid) {
      unmount(vmid)
      rmSync(own(vmid), { recursive: true, force: true })
    },
  }
}

/** A shell script that ends every container of a folder, for the keeper of its server. */
export function lxcCleanUp(programs: string, prefix: string, bridge: string): string {
  const { PATH = '', LD_LIBRARY_PATH = '' } = environment(programs)
  return [
    `for volume in "$folder"/volumes/*; do LD_LIBRARY_PATH=${LD_LIBRARY_PATH} PATH=${PATH} lxc-stop -k -P "$folder/lxc" -n "${prefix}-$(basename "$volume")" >/dev/null 2>&1; done`,
    'sleep 0.2',
    'for volume in "$folder"/volumes/*; do umount "$volume/merged" 2>/dev/null; done',
    `find /sys/fs/cgroup -depth -type d -path "*${prefix}-*" -exec rmdir {} + 2>/dev/null`,
    'find /sys/fs/cgroup -maxdepth 2 -type d -name lxc.pivot -exec rmdir {} + 2>/dev/null',
    'rm -rf "/run/lxc/lock$folder"; find /run/lxc -type d -empty -delete 2>/dev/null',
    `ip link delete ${bridge} 2>/dev/null`,
  ].join('\n')
}

function run(program: string, args: readonly string[], cwd?: string): void {
  const { status, stderr, error } = spawnSync(program, args, {
    encoding: 'utf8',
    ...(cwd === undefined ? {} : { cwd }),
  })
  if (status !== 0) throw new Error(`${program} failed: ${error?.message ?? stderr}`)
}
