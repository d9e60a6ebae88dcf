/** One hierarchy of control groups, and where in it this process is. */
export interface CgroupTree {
  readonly version: 1 | 2
  /** What is counted and limited here; for version 2 what is really there is read from the group itself. */
  readonly controllers: readonly string[]
  /** The group that this process is in, as a folder. */
  readonly folder: string
}

/**
 * The hierarchies that are mounted here and hold this process, from the text of `/proc/self/cgroup` and
 * `/proc/self/mountinfo`: version 1 trees by controller, one version 2 tree, or, in the hybrid layout, both.
 */
export function readLayout(cgroup: string, mountinfo: string): CgroupTree[] {
  const memberships = cgroup.split('\n').flatMap(membershipOf)
  return mountinfo.split('\n').flatMap((line) => {
    const mount = mountOf(line)
    const membership = memberships.find((one) => mount !== undefined && isIn(mount, one))
    if (mount === undefined || membership === undefined) return []
    const folder = folderOf(mount, membership.path)
    return folder === undefined ? [] : [{ version: mount.version, controllers: mount.controllers, folder }]
  })
}

interface Membership {
  /** Empty for version 2. */
  readonly controllers: readonly string[]
  readonly path: string
}

interface Mount {
  readonly version: 1 | 2
  readonly controllers: readonly string[]
  /** Which group of the hierarchy is seen at the mount point. */
  readonly root: string
  readonly point: string
}

function membershipOf(line: string): Membership[] {
  const [, , controllers, path] = /^(\d+):([^:]*):(.*)$/.exec(line) ?? []
  if (controllers === undefined || path === undefined) return []
  return [{ controllers: controllers.split(',').filter(Boolean), path }]
}

function mountOf(line: string): Mount | undefined {
  const [before = '', after] = line.split(' - ')
  if (after === undefined) return undefined
  const [, , , root = '', point = ''] = before.split(' ')
  const [type, , options = ''] = after.split(' ')
  if (type !== 'cgroup' && type !== 'cgroup2') return undefined
  const version = type === 'cgroup' ? 1 : 2
  const controllers = version === 1 ? options.split(',').filter((option) => option !== 'rw' && option !== 'ro') : []
  return { version, controllers, root: unescaped(root), point: unescaped(point) }
}

function isIn(mount: Mount, { controllers }: Membership): boolean {
  if (mount.version === 2) return controllers.length === 0
  return controllers.some((controller) => mount.controllers.includes(controller))
}

/** A container may see only its part of a hierarchy, mounted as if it were the whole. */
function folderOf({ root, point }: Mount, path: string): string | undefined {
  if (root === '/') return path === '/' ? point : `${point}${path}`
  if (path === root) return point
  return path.startsWith(`${root}/`) ? `${point}${path.slice(root.length)}` : undefined
}

/** The kernel writes spaces, tabs, newlines and backslashes of paths in octal. */
function unescaped(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)))
}
