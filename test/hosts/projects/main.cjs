const express = require('express');
const { createModelGateway, GatewayError } = require('express-model-gateway');
const { webhookReceiver } = require('express-model-gateway/receiver');
const mongoose = require('mongoose');
const { tryHost } = require('./host.cjs');

tryHost({ express, mongoose, createModelGateway, GatewayError, webhookReceiver });
