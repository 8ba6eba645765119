const os = require('node:os');
const { version } = require('mongoose');

// The driver of mongoose 9 imports `os`, which Jest cannot without --experimental-vm-modules.
exports.mongo = version.startsWith('9') ? { runtimeAdapters: { os } } : {};
